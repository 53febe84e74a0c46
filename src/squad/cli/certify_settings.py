"""Settings of ``squad certify``: targets, costs and population shares, parsed from options and files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from squad.errors import ArgumentError, DataError

if TYPE_CHECKING:
    from squad.cli.inputs import Format

__all__ = ["CertifySettings", "named_numbers", "numbers_of", "read_costs", "target_of"]


@dataclass(frozen=True)
class CertifySettings:
    """What is to be certified, and how.

    Attributes:
        targets: Risks by harm, one mapping per target.
        delta: 1 - confidence level.
        method: Method of selection.
        by: Column of groups with a threshold each, or "label"; None: one threshold.
        thresholds: Thresholds of the method grid.
        ranks: Number of thresholds of the method bonferroni.
        r_max: Largest risk of the method band.
        pilot: File of rows (or scores) that choose thresholds.
        attempt: Number of this attempt to certify, for scores.
        costs: File of costs of confusions.
        sampling_design: Weights and strata of the calibration rows: weights, max_weight, estimated_weights, strata and
            population, as ``Predictor.certify`` takes them.
        overwrite: Whether existing output may be replaced.
        format: Format of CSV and TSV files.
    """

    targets: list[dict[str, float]]
    delta: float
    method: str
    by: str | None
    thresholds: list[float] | None
    ranks: int
    r_max: float
    pilot: str | None
    attempt: int | None
    costs: Path | None
    sampling_design: Mapping[str, Any]
    overwrite: bool
    format: "Format"


def target_of(text: str) -> dict[str, float]:
    """Return risks by harm, from ".02" or "wrong=.02,missed ill=.005".

    Examples:
        >>> target_of(".02,missed ill=.005")
        {'wrong': 0.02, 'missed ill': 0.005}
    """
    return named_numbers("--risk", text, "a fraction such as .02, or .02,missed CLASS=.005", "wrong")


def numbers_of(option: str, text: str | None) -> list[float] | None:
    """Return comma-separated numbers; None if the option is not given.

    Args:
        option: Name of the option, used in the error message.
        text: Its value.

    Returns:
        The numbers, or None.

    Examples:
        >>> numbers_of("--thresholds", ".99,.95")
        [0.99, 0.95]
    """
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError.of(option, repr(text), "comma-separated numbers such as .99,.95") from None


def named_numbers(option: str, text: str, example: str, unnamed: str | None = None) -> dict[str, float]:
    """Return numbers by name, from "a=.7,b=.3"; names may contain commas and equals signs.

    Args:
        option: Name of the option, used in the error message.
        text: Its value.
        example: What it should be, used in the error message.
        unnamed: Name of a number without a name; None: such a number is an error.

    Returns:
        Number by name, in the order of the text.

    Examples:
        >>> named_numbers("--population", "a=.7,b=.3", "shares such as a=.7,b=.3")
        {'a': 0.7, 'b': 0.3}
    """
    found: dict[str, float] = {}
    pending = ""
    for part in text.split(","):
        pending = f"{pending},{part}" if pending else part
        name, _, value = pending.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            continue
        name = name.strip() or unnamed or ""
        if not name or name in found:
            raise ArgumentError.of(option, repr(text), f"one number for {name!r}" if name else example)
        found[name] = number
        pending = ""
    if pending or not found:
        raise ArgumentError.of(option, repr(text), example)
    return found


def read_costs(path: Path, format: "Format") -> dict[tuple[str, str] | None, float]:
    """Return costs by (true class, predicted class); None is the key of a line without classes: all other pairs.

    Args:
        path: Table with the columns true, predicted and cost.
        format: Format of a CSV or TSV file.

    Returns:
        Cost by pair of classes.
    """
    from squad.cli.score_columns import numbers, read_table
    from squad.data.tables import labels

    table = read_table(path, format.encoding, format.decimal)
    true, predicted = (labels(table, name, strict=False).tolist() for name in ("true", "predicted"))
    found: dict[tuple[str, str] | None, float] = {}
    for row, (one, other, cost) in enumerate(zip(true, predicted, numbers(table, "cost").tolist(), strict=True)):
        if (one == "") != (other == ""):
            raise DataError(f"{table.where(row)} of {path} must name both classes, or none for all other confusions.")
        pair = (one, other) if one else None
        if pair in found:
            raise DataError(f"{path} must have each pair of classes once; {table.where(row)} repeats {pair or 'none'}.")
        found[pair] = cost
    return found
