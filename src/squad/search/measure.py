"""Display of objective values: percentages for coverage and accuracy, positive numbers for AURC."""

from dataclasses import dataclass

__all__ = ["Measure"]


@dataclass(frozen=True)
class Measure:
    """Name, unit and direction of an objective, for display.

    Attributes:
        name: "coverage", "accuracy" or "AURC".
        title: Name with its risk, such as "coverage at risk 2 %".
        percent: Whether values are proportions and displayed in percent.
        sign: 1, or -1 for an AURC, which is stored negated because smaller is better.

    Examples:
        >>> measure = Measure.of("coverage@risk=0.02,delta=0.01")
        >>> measure.title, measure.text(0.695)
        ('coverage at risk 2 %', 'coverage 69.5 %')
    """

    name: str
    title: str
    percent: bool
    sign: int

    @classmethod
    def of(cls, objective: str) -> "Measure":
        """Return the measure of an objective in its canonical form, such as "coverage@risk=0.02,delta=0.01"."""
        name, _, options = objective.partition("@")
        if name == "aurc":
            return cls("AURC", "AURC", percent=False, sign=-1)
        given = dict(part.split("=", 1) for part in options.split(",") if "=" in part)
        title = f"{name} at risk {100 * float(given['risk']):.4g} %" if "risk" in given else name
        return cls(name, title, percent=True, sign=1)

    def shown(self, value: float) -> float:
        """Return a value as displayed: in percent, or without the minus sign."""
        return 100 * value if self.percent else self.sign * value + 0.0  # + 0.0 avoids -0

    def short(self, value: float, digits: int = 1) -> str:
        """Format a value: ``69.5 %``, or ``0.01234`` with four significant digits for an AURC.

        Args:
            value: Value as it is stored: a proportion, or a negated AURC.
            digits: Decimal places of a percentage.

        Returns:
            The value as text.
        """
        return f"{self.shown(value):.{digits}f} %" if self.percent else _four_digits(self.shown(value))

    def text(self, value: float, digits: int = 1) -> str:
        """Format a value with its name: ``coverage 69.5 %`` or ``AURC 0.01234``.

        Args:
            value: Value as it is stored: a proportion, or a negated AURC.
            digits: Decimal places of a percentage.

        Returns:
            The value as text.
        """
        return f"{self.name} {self.short(value, digits)}"


def _four_digits(value: float) -> str:
    """Format with four significant digits: 0.003100, or 3.100e-5 for small numbers."""
    if value == 0:
        return "0"
    mantissa, e, exponent = f"{value:#.4g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa
