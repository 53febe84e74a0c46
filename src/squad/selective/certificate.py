"""Certificates: which predictions are accepted, and a guarantee on their selective risk."""

import hashlib
import json
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.errors import ArgumentError, SquadError
from squad.files import read_text, write_json
from squad.selective.attempts import check_attempt, delta_share
from squad.selective.certificate_html import html_card
from squad.selective.certificate_text import full_text, headline
from squad.selective.consistency import check_certificate
from squad.selective.groups import ByGroup
from squad.selective.rules import Rule, read_count, read_fraction
from squad.selective.scored_cases import as_array, as_groups
from squad.signing import remove_signature as drop_signature
from squad.signing import sign as write_signature
from squad.signing import verify as check_signature

__all__ = ["Certificate", "CertificateError", "Rule"]

KIND = "squad-torch certificate"
#: Format that is written, and formats that can be read; format 1 also divided delta between the harms of a target.
FORMAT, READABLE_FORMATS = 2, (1, 2)

#: Maximum size of a certificate file: a rule takes a kilobyte, and there is one per group and target.
MAX_BYTES = 16 << 20


class CertificateError(SquadError):
    """A certificate that cannot be read, or that contradicts its own numbers."""


@dataclass(frozen=True)
class Certificate:
    """A guarantee on selective risk: everything it states holds with confidence level 1 - ``delta``.

    Created by :func:`squad.certify` and ``Predictor.certify``.  ``str(certificate)`` is the full text, including the
    assumptions; :attr:`headline` is its first line.  Notebooks show a compact table.

    Attributes:
        rules: One rule for each target and group.
        method: Name of the method that chose them.
        delta: Probability, over the calibration set, that any part of the certificate is false.
        m: Number of calibration cases.
        ties: Number of calibration cases that share their confidence with another one.
        by: Name of the grouping, such as "label" or a column's name; None without groups.
        options: Options of the method.
        details: Provenance, as plain data; a predictor records here which model the certificate belongs to.
        attempt: Number of the attempt to certify the model, which determines its share of delta
            (:mod:`squad.selective.attempts`); None if it is the only one, at all of delta.

    See Also:
        certify: Creates certificates.
        plan: Computes how many calibration cases a certificate needs.

    Examples:
        >>> import numpy as np
        >>> from squad import certify
        >>> rng = np.random.default_rng(0)
        >>> confidence = rng.random(2000)
        >>> correct = rng.random(2000) < 0.8 + 0.2 * confidence
        >>> certificate = certify(confidence, correct, risk=0.05, delta=0.05)
        >>> round(certificate.coverage, 3), certificate.errors
        (0.336, 23)
        >>> certificate.accepts([0.2, 0.9])
        array([False,  True])
        >>> Certificate.from_json(certificate.to_json()) == certificate
        True
    """

    rules: tuple[Rule, ...]
    method: str
    delta: float
    m: int
    ties: int = 0
    by: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    attempt: int | None = None

    @property
    def certified(self) -> bool:
        """Whether any case can be accepted."""
        return any(rule.certified for rule in self.rules)

    @property
    def targets(self) -> list[Mapping[str, float]]:
        """Certified targets, each a mapping from harm to risk, in their order."""
        found: list[Mapping[str, float]] = []
        for rule in self.rules:
            if rule.risks not in found:
                found.append(rule.risks)
        return found

    @property
    def threshold(self) -> float:
        """Threshold that a confidence must exceed; only for a certificate with one rule."""
        return self._only_rule("threshold").threshold

    @property
    def risk(self) -> float:
        """Certified selective risk; only for a certificate with one rule and one harm."""
        return float(self._only_harm("risk", self._only_rule("risk").risks))

    @property
    def errors(self) -> float:
        """Number of errors among the n accepted cases; only for a certificate with one rule and one harm."""
        found: float = self._only_harm("errors", self._only_rule("errors").errors)
        return found

    @property
    def needed(self) -> int | None:
        """Approximate number of calibration cases needed; only for a certificate with one rule."""
        return self._only_rule("needed").needed

    @property
    def n(self) -> int:
        """Number of accepted calibration cases over all groups; only for a certificate with one target."""
        self._require_one_target("n")
        return sum(rule.n for rule in self.rules)

    @property
    def coverage(self) -> float:
        """Fraction of calibration cases that are accepted; only for a certificate with one target."""
        self._require_one_target("coverage")
        return self.n / self.m if self.m else 0.0

    def target(self, risk: float | Mapping[str, float] | None = None) -> tuple[Rule, ...]:
        """Return the rules of one target.

        Args:
            risk: Risk of the target, or a mapping from harm to risk; None if there is only one target.

        Returns:
            One rule per group, or a single rule if the certificate has no groups.
        """
        targets = self.targets
        if risk is None:
            self._require_one_target("target()")
            return self.rules
        if isinstance(risk, Mapping):
            found = [target for target in targets if _same_target(target, risk)]
        else:  # a number: wrong predictions alone, or with other harms if the target is unique
            found = [target for target in targets if _same_target(target, {"wrong": risk})]
            found = found or [
                target for target in targets if "wrong" in target and _nearly_equal(target["wrong"], risk)
            ]
        if len(found) != 1:
            raise ArgumentError.of("risk", risk, f"one of those certified ({_list_targets(targets)})")
        return tuple(rule for rule in self.rules if rule.risks == found[0])

    def accepts(
        self,
        confidence: ArrayLike | torch.Tensor,
        by: ArrayLike | torch.Tensor | None = None,
        risk: float | Mapping[str, float] | None = None,
    ) -> NDArray[np.bool_]:
        """Decide which predictions are accepted: those with a confidence above the threshold; NaN is never accepted.

        Args:
            confidence: Confidence scores of any shape, on the scale of the calibration cases.
            by: Group of each case, of the same shape, if groups have their own thresholds; unknown groups are not
                accepted.
            risk: Which target to use, if there are several.

        Returns:
            Booleans, of the shape of ``confidence``; the model abstains where they are False.
        """
        given = as_array("confidence", confidence)
        if given.dtype.kind not in "biuf":
            raise ArgumentError.of("confidence", given.dtype, "numbers")
        given = given.astype(np.float64)
        rules = self.target(risk)
        if self.by is None:
            if by is not None:
                raise ArgumentError("by must not be passed: this certificate has a single threshold, without groups.")
            return given > rules[0].threshold
        if by is None:
            raise ArgumentError.of("by", None, f"the group ({self.by}) of each case: each group has its own threshold")
        groups = as_groups("by", by)
        if groups.shape != given.shape:
            raise ArgumentError.of("by", f"shape {groups.shape}", f"of shape {given.shape}: one group per case")
        limits = ByGroup((rule.group, rule.threshold) for rule in rules)
        found = [limits.find(group) for group in groups.ravel()]
        return given > np.array([np.inf if one is None else one for one in found]).reshape(groups.shape)

    @property
    def headline(self) -> str:
        """One-line summary for tables and logs; without the assumptions, which ``str`` includes."""
        return headline(self)

    def __str__(self) -> str:
        return full_text(self)

    def _repr_html_(self) -> str:
        return html_card(self)

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as plain data, with a checksum that detects accidental edits."""
        data = {
            "kind": KIND,
            "format": FORMAT,
            "says": str(self),
            "certified": self.certified,
            "method": self.method,
            "delta": self.delta,
            "attempt": self.attempt,
            "share": delta_share(self.attempt),
            "m": self.m,
            "ties": self.ties,
            "by": self.by,
            "options": dict(self.options),
            "rules": [rule.to_json() for rule in self.rules],
            "details": dict(self.details),
        }
        return {**data, "checksum": _checksum(data)}

    @classmethod
    def from_json(cls, data: object) -> "Certificate":
        """Read what :meth:`to_json` wrote, and check that it is consistent.

        A certificate that does not follow from its own counts is refused: see :mod:`squad.selective.consistency`.

        Args:
            data: Parsed JSON.

        Returns:
            The certificate.

        Raises:
            CertificateError: If the data are not a certificate, were changed, or contradict themselves.
        """
        if not isinstance(data, Mapping) or data.get("kind") != KIND:
            raise CertificateError(f"This is not a certificate: it must be a JSON object whose 'kind' is {KIND!r}.")
        if data.get("format") not in READABLE_FORMATS:
            known = " and ".join(map(str, READABLE_FORMATS))
            raise CertificateError(f"This version reads certificates of formats {known}, got {data.get('format')}.")
        try:
            made = cls(
                tuple(Rule.from_json(rule) for rule in data["rules"]),
                str(data["method"]),
                read_fraction(data["delta"]),
                read_count(data["m"]),
                read_count(data["ties"]),
                None if data["by"] is None else str(data["by"]),
                dict(data["options"]),
                dict(data["details"]),
                check_attempt(data.get("attempt")),  # format 1 had a single attempt
            )
            if data.get("share", 1.0) != delta_share(made.attempt):
                raise ValueError(f"attempt {made.attempt} cannot have share {data.get('share')!r} of delta")
            if data["checksum"] != _checksum(data):
                raise ValueError("it was changed after it was made")
            check_certificate(made)
            if made.certified is not data["certified"]:
                raise ValueError(f"'certified' is {data['certified']!r}, but its rules say {made.certified}")
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as cause:
            raise CertificateError(f"A saved certificate is damaged: {str(cause)[:400]}. Certify again.") from cause
        return made

    def save(self, path: str | Path) -> Path:
        """Write the certificate to a JSON file, atomically, and remove a signature of an earlier file of that name.

        Args:
            path: File to write.

        Returns:
            The path.

        Raises:
            CertificateError: If the file cannot be written.
        """
        try:
            saved = write_json(path, self.to_json(), indent=1)
        except OSError as cause:
            raise CertificateError(f"{path} cannot be written: {cause.strerror or cause}.") from cause
        drop_signature(path)  # it belongs to the file that was replaced
        return saved

    @classmethod
    def load(cls, path: str | Path, public_key: str | Path | bytes | None = None) -> "Certificate":
        """Read a file that :meth:`save` wrote, and check it.

        Args:
            path: File to read.
            public_key: If given, refuse a certificate that is not signed with this key (:mod:`squad.signing`): path of
                a PEM file, or its content.

        Returns:
            The certificate.

        Raises:
            CertificateError: If the file cannot be read, or is damaged or inconsistent.
        """
        data = _read_json(path)
        made = cls.from_json(data)
        if public_key is not None:
            check_signature(path, KIND, _checksum(data), public_key)
        return made

    @classmethod
    def sign(cls, path: str | Path, key: str | Path | bytes) -> Path:
        """Sign a file that :meth:`save` wrote; the signature is written next to it, as NAME.signature.json.

        Args:
            path: File to sign.
            key: Private key (Ed25519): path of a PEM file, or its content.

        Returns:
            Path of the signature.
        """
        data = _read_json(path)
        cls.from_json(data)
        return write_signature(path, KIND, _checksum(data), key)

    def _only_rule(self, name: str) -> Rule:
        if len(self.rules) > 1:
            raise ArgumentError(
                f"{name} is defined for a single rule, but this certificate has {len(self.rules)}. Use its rules."
            )
        return self.rules[0]

    def _require_one_target(self, name: str) -> None:
        if len(targets := self.targets) > 1:
            raise ArgumentError(
                f"This certificate has several targets: {_list_targets(targets)}. Choose one as the risk for {name}."
            )

    def _only_harm(self, name: str, values: Mapping[str, Any]) -> Any:
        if len(values) > 1:
            raise ArgumentError(
                f"{name} is defined for a single harm, but this certificate has {', '.join(values)}. Use its rules."
            )
        return next(iter(values.values()))


def _read_json(path: str | Path) -> Any:
    try:
        return json.loads(read_text(path, MAX_BYTES))
    except OSError as cause:
        raise CertificateError(f"{path} cannot be read: {cause.strerror or cause}.") from cause
    except (ValueError, RecursionError) as cause:
        raise CertificateError(f"{path} must be a JSON file with a certificate: {str(cause)[:120]}.") from cause


def _nearly_equal(one: float, other: Any) -> bool:
    """Whether numbers are equal up to the rounding of single precision, in which risks may be passed."""
    return isinstance(other, numbers.Real) and math.isclose(one, float(other), rel_tol=1e-6)


def _same_target(target: Mapping[str, float], risk: Mapping[str, Any]) -> bool:
    return set(target) == set(risk) and all(_nearly_equal(value, risk[name]) for name, value in target.items())


def _list_targets(targets: list[Mapping[str, float]]) -> str:
    return "; ".join(", ".join(f"{name} {risk:g}" for name, risk in target.items()) for target in targets)


def _checksum(data: Mapping[str, Any]) -> str:
    """Return a hash of everything but the checksum itself, independent of the layout of the file."""
    rest = {name: value for name, value in data.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
