"""A certificate: which predictions are accepted, and the guarantee that at most so many of them are wrong."""

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
from squad.selective.attempts import check_attempt, share
from squad.selective.certificate_text import headline, whole
from squad.selective.consistency import check_certificate
from squad.selective.groups import ByGroup
from squad.selective.scored_cases import as_array, as_groups
from squad.signing import check as check_signature
from squad.signing import drop as drop_signature
from squad.signing import sign as write_signature

__all__ = ["Certificate", "CertificateError", "Rule"]

KIND = "squad-torch certificate"
#: What is written, and what can be read: format 1 divided delta between the harms of a target, too.
FORMAT, READ = 2, (1, 2)

#: A larger file is no certificate: one rule takes a kilobyte, and there is one a group, target and harm.
MOST_BYTES = 16 << 20


class CertificateError(SquadError):
    """A certificate that cannot be read."""


@dataclass(frozen=True)
class Rule:
    """One threshold, and what was shown for it.

    Attributes:
        risks: by harm, the share of accepted cases that may suffer it; "wrong" is a wrong answer.
        group: the group it is for; None for all cases.
        threshold: answers with a confidence above it are accepted; -inf accepts all, +inf none.
        n: calibration cases (of the group) that it accepts.
        m: calibration cases (of the group).
        errors: by harm, how many of the n suffered it; for costs, what they cost in all.
        level: the part of delta that each of its harms was tested at.
        needed: about how many calibration cases the next attempt would take, where nothing could be shown; None if not
            known.
        hopeless: the errors that were seen reach the risk at every threshold: more labels will not help.
        counted: by harm that is counted on some cases only: how many of those are accepted, of how many.
        costs: the harms that have costs between 0 and 1 instead of errors.
        closest: by harm, if it is hopeless: the errors at the threshold that comes closest to the risks, and on how
            many cases they are counted.
        failing: by harm that could not be shown even alone, if there are several: its errors if all cases were
            accepted, and on how many cases they are counted.
    """

    risks: Mapping[str, float]
    group: Any
    threshold: float
    n: int
    m: int
    errors: Mapping[str, float]
    level: float
    needed: int | None = None
    hopeless: bool = False
    counted: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    costs: tuple[str, ...] = ()
    closest: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    failing: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    @property
    def certified(self) -> bool:
        """Whether it accepts anything."""
        return self.threshold < math.inf

    @property
    def coverage(self) -> float:
        """The share of the calibration cases that it accepts."""
        return self.n / self.m if self.m else 0.0

    def counts(self, harm: str) -> tuple[int, int]:
        """The accepted cases that the harm is counted on, and of how many."""
        return self.counted.get(harm, (self.n, self.m))

    def to_json(self) -> dict[str, Any]:
        """As plain data; JSON knows no infinity."""
        accepts = "above" if math.isfinite(self.threshold) else "none" if self.threshold > 0 else "all"
        return {
            "risks": dict(self.risks),
            "group": self.group,
            "accepts": accepts,
            "threshold": self.threshold if accepts == "above" else None,
            "n": self.n,
            "m": self.m,
            "coverage": self.coverage,
            "errors": dict(self.errors),
            "level": self.level,
            "needed": self.needed,
            "hopeless": self.hopeless,
            "counted": {name: list(pair) for name, pair in self.counted.items()},
            "costs": list(self.costs),
            "closest": {name: list(pair) for name, pair in self.closest.items()},
            "failing": {name: list(pair) for name, pair in self.failing.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Rule":
        """What :meth:`to_json` made."""
        accepts, threshold = data["accepts"], data["threshold"]
        finite = type(threshold) in (int, float) and math.isfinite(threshold)
        if accepts not in ("above", "all", "none") or (not finite if accepts == "above" else threshold is not None):
            raise ValueError(f"accepts {accepts!r} with a threshold of {threshold!r}")
        if type(data["hopeless"]) is not bool:
            raise ValueError(f"hopeless is {data['hopeless']!r}")
        limit = {"all": -math.inf, "none": math.inf}.get(accepts, threshold)
        costs = tuple(str(name) for name in data.get("costs", ()))  # format 1 had neither of the two
        counted = {str(name): _pair(pair) for name, pair in data.get("counted", {}).items()}
        rule = cls(
            {str(name): _share(risk) for name, risk in data["risks"].items()},
            data["group"],
            float(limit),
            _count(data["n"]),
            _count(data["m"]),
            {str(name): (_sum if name in costs else _count)(count) for name, count in data["errors"].items()},
            _share(data["level"]),
            None if data["needed"] is None else _count(data["needed"]),
            data["hopeless"],
            counted,
            costs,
            _errors_of(data.get("closest", {}), costs),
            _errors_of(data.get("failing", {}), costs),
        )
        named = {*counted, *costs, *rule.closest, *rule.failing}
        if set(rule.errors) != set(rule.risks) or not rule.risks or not named <= set(rule.risks):
            raise ValueError(f"risks of {', '.join(rule.risks)}, and errors of {', '.join(rule.errors)}")
        if rule.n > rule.m or data["coverage"] != rule.coverage:
            raise ValueError(f"{rule.n:,} of {rule.m:,} cases are accepted, with a coverage of {data['coverage']!r}")
        return rule


@dataclass(frozen=True)
class Certificate:
    """What holds, all of it at once, with probability 1 - ``delta`` over the calibration cases.

    Made by :func:`squad.certify` and ``Predictor.certify``.  ``str(certificate)`` says it in words, with what it rests
    on, in several lines; :attr:`headline` is the first of them.

    Attributes:
        rules: one for each target and group.
        method: how they were found.
        delta: the chance that any of it is false.
        m: calibration cases.
        ties: how many of them share their confidence with another.
        by: what the groups are called, such as "label" or a column's name; None if there are none.
        options: of the method.
        details: where it comes from: plain data; a predictor notes here which model it belongs to.
        attempt: which attempt to certify the model it is, and so at which share of delta
            (:mod:`squad.selective.attempts`); None for the only one, at all of it.
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
        """The risks that were asked for, each a mapping from harm to risk, in their order."""
        found: list[Mapping[str, float]] = []
        for rule in self.rules:
            if rule.risks not in found:
                found.append(rule.risks)
        return found

    @property
    def threshold(self) -> float:
        """What a confidence must exceed; of a certificate with one rule."""
        return self._one("threshold").threshold

    @property
    def risk(self) -> float:
        """The share of accepted cases that may be wrong; of a certificate with one rule and harm."""
        return float(self._harm("risk", self._one("risk").risks))

    @property
    def errors(self) -> float:
        """How many of the n were wrong; of a certificate with one rule and harm."""
        found: float = self._harm("errors", self._one("errors").errors)
        return found

    @property
    def needed(self) -> int | None:
        """About how many calibration cases it would take; of a certificate with one rule."""
        return self._one("needed").needed

    @property
    def n(self) -> int:
        """Calibration cases that are accepted; of a certificate with one target, over all groups."""
        self._one_target("n")
        return sum(rule.n for rule in self.rules)

    @property
    def coverage(self) -> float:
        """The share of the calibration cases that are accepted; of a certificate with one target."""
        self._one_target("coverage")
        return self.n / self.m if self.m else 0.0

    def target(self, risk: float | Mapping[str, float] | None = None) -> tuple[Rule, ...]:
        """The rules of one target: of the only one, or of the one with this risk."""
        targets = self.targets
        if risk is None:
            self._one_target("this")
            return self.rules
        if isinstance(risk, Mapping):
            found = [target for target in targets if _same(target, risk)]
        else:  # of a number: wrong answers alone, or beside other harms if only one target has it
            found = [target for target in targets if _same(target, {"wrong": risk})]
            found = found or [target for target in targets if "wrong" in target and _near(target["wrong"], risk)]
        if len(found) != 1:
            raise ArgumentError.of("risk", risk, f"one of those certified ({_listed(targets)})")
        return tuple(rule for rule in self.rules if rule.risks == found[0])

    def accepts(
        self,
        confidence: ArrayLike | torch.Tensor,
        by: ArrayLike | torch.Tensor | None = None,
        risk: float | Mapping[str, float] | None = None,
    ) -> NDArray[np.bool_]:
        """Which answers are accepted: those whose confidence is above the threshold.  NaN never is.

        Args:
            confidence: of any shape, on the scale of the calibration cases.
            by: the group of each, where there is a threshold a group; one without a rule is not accepted.
            risk: which target, where there are several.
        """
        given = as_array("confidence", confidence)
        if given.dtype.kind not in "biuf":
            raise ArgumentError.of("confidence", given.dtype, "numbers")
        given = given.astype(np.float64)
        rules = self.target(risk)
        if self.by is None:
            if by is not None:
                raise ArgumentError.of("by", "groups", "left out: this certificate has one threshold for all")
            return given > rules[0].threshold
        if by is None:
            raise ArgumentError.of("by", None, f"the group of each case ({self.by}): each has a threshold of its own")
        groups = as_groups("by", by)
        if groups.shape != given.shape:
            raise ArgumentError.of("by", f"the shape {groups.shape}", f"of shape {given.shape}: a group a case")
        limits = ByGroup((rule.group, rule.threshold) for rule in rules)
        found = [limits.find(group) for group in groups.ravel()]
        return given > np.array([np.inf if one is None else one for one in found]).reshape(groups.shape)

    @property
    def headline(self) -> str:
        """What is certified in one line, for tables and logs; without what it rests on, which ``str`` has."""
        return headline(self)

    def __str__(self) -> str:
        return whole(self)

    def to_json(self) -> dict[str, Any]:
        """As plain data, with a checksum that shows careless edits."""
        data = {
            "kind": KIND,
            "format": FORMAT,
            "says": str(self),
            "certified": self.certified,
            "method": self.method,
            "delta": self.delta,
            "attempt": self.attempt,
            "share": share(self.attempt),
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
        """What :meth:`to_json` made; anything else is a :class:`CertificateError`.

        So is a certificate that does not follow from its own counts: see :mod:`squad.selective.consistency`.
        """
        if not isinstance(data, Mapping) or data.get("kind") != KIND:
            raise CertificateError(f"A {KIND} must be a JSON object that says so ('kind'); this is none.")
        if data.get("format") not in READ:
            known = " and ".join(map(str, READ))
            raise CertificateError(f"This version reads certificates of the formats {known}, got {data.get('format')}.")
        try:
            made = cls(
                tuple(Rule.from_json(rule) for rule in data["rules"]),
                str(data["method"]),
                _share(data["delta"]),
                _count(data["m"]),
                _count(data["ties"]),
                None if data["by"] is None else str(data["by"]),
                dict(data["options"]),
                dict(data["details"]),
                check_attempt(data.get("attempt")),  # format 1 knew of no other
            )
            if data.get("share", 1.0) != share(made.attempt):
                raise ValueError(f"attempt {made.attempt} has the share {data.get('share')!r} of delta")
            if data["checksum"] != _checksum(data):
                raise ValueError("it was changed after it was made")
            check_certificate(made)
            if made.certified is not data["certified"]:
                raise ValueError(f"'certified' is {data['certified']!r}, and its rules say {made.certified}")
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as cause:
            raise CertificateError(f"A saved certificate is damaged: {str(cause)[:400]}. Certify again.") from cause
        return made

    def save(self, path: str | Path) -> Path:
        """Write it as a JSON file, whole or not at all."""
        try:
            saved = write_json(path, self.to_json(), indent=1)
        except OSError as cause:
            raise CertificateError(f"{path} cannot be written: {cause.strerror or cause}.") from cause
        drop_signature(path)  # of what stood there before
        return saved

    @classmethod
    def load(cls, path: str | Path, public_key: str | Path | bytes | None = None) -> "Certificate":
        """Read a file that :meth:`save` wrote.

        Args:
            path: the file.
            public_key: refuse a certificate that is not signed with this key (:mod:`squad.signing`): a PEM file, or its
                content.
        """
        data = _read(path)
        made = cls.from_json(data)
        if public_key is not None:
            check_signature(path, KIND, _checksum(data), public_key)
        return made

    @classmethod
    def sign(cls, path: str | Path, key: str | Path | bytes) -> Path:
        """Sign a file that :meth:`save` wrote; the signature stands beside it, as NAME.signature.json.

        Args:
            path: the file.
            key: the private key (Ed25519): a PEM file, or its content.
        """
        data = _read(path)
        cls.from_json(data)
        return write_signature(path, KIND, _checksum(data), key)

    def _one(self, name: str) -> Rule:
        if len(self.rules) > 1:
            raise ArgumentError(
                f"{name} must be asked of one rule; this certificate has {len(self.rules)}: see certificate.rules."
            )
        return self.rules[0]

    def _one_target(self, name: str) -> None:
        if len(targets := self.targets) > 1:
            raise ArgumentError(f"Say for which target {name} is asked (risk=...): there are {_listed(targets)}.")

    def _harm(self, name: str, values: Mapping[str, Any]) -> Any:
        if len(values) > 1:
            raise ArgumentError(
                f"{name} must be asked of one harm; this certificate has {', '.join(values)}: see rules."
            )
        return next(iter(values.values()))


def _read(path: str | Path) -> Any:
    try:
        return json.loads(read_text(path, MOST_BYTES))
    except OSError as cause:
        raise CertificateError(f"{path} cannot be read: {cause.strerror or cause}.") from cause
    except (ValueError, RecursionError) as cause:
        raise CertificateError(f"{path} must be a JSON file with a certificate: {str(cause)[:120]}.") from cause


def _near(one: float, other: Any) -> bool:
    """Equal but for the rounding of single precision, in which risks may come."""
    return isinstance(other, numbers.Real) and math.isclose(one, float(other), rel_tol=1e-6)


def _same(target: Mapping[str, float], risk: Mapping[str, Any]) -> bool:
    return set(target) == set(risk) and all(_near(value, risk[name]) for name, value in target.items())


def _listed(targets: list[Mapping[str, float]]) -> str:
    return "; ".join(", ".join(f"{name} {risk:g}" for name, risk in target.items()) for target in targets)


def _checksum(data: Mapping[str, Any]) -> str:
    """Of everything but itself, however it is laid out."""
    rest = {name: value for name, value in data.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise ValueError(f"{value!r} is not between 0 and 1")
    return float(value)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError(f"{str(value)[:40]} is not a count")
    return value


def _pair(value: Any) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{str(value)[:40]} is not a pair of counts")
    accepted, all_ = map(_count, value)
    return accepted, all_


def _errors_of(data: Mapping[str, Any], costs: tuple[str, ...]) -> dict[str, tuple[float, int]]:
    """By harm, errors (or what cases cost) and on how many cases they are counted."""
    return {str(name): ((_sum if name in costs else _count)(pair[0]), _count(pair[1])) for name, pair in data.items()}


def _sum(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1 << 53:
        raise ValueError(f"{str(value)[:40]} is not a sum of costs")
    return float(value)
