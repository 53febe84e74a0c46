"""A certificate in words: one honest sentence, with what it takes for granted."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from squad.selective.certificate import Certificate, Rule

__all__ = ["assumptions", "certainty", "confidence_text", "percent", "risks_text", "sentence"]

SOURCE = (
    "new cases come in the same way as the calibration cases, which were drawn independently of each other and of"
    " everything the model was made from"
)
ORDER = (
    "the share of errors (of each kind) does not fall as the threshold falls and confidences are hardly ever equal (for"
    " other scores it was tested by simulation, not proven)"
)
DISTINCT = "confidences are hardly ever equal (for other scores it was tested by simulation, not proven)"
#: What a method needs beyond independent cases.
NEEDS = {
    "fallback": ORDER,
    "fixed_sequence": ORDER,
    "bonferroni": DISTINCT,
    "sgr": ORDER,
    "grid": "the thresholds were named before the calibration cases were looked at",
    "band": "the largest risk asked for was fixed before the calibration cases were looked at",
}


def sentence(certificate: "Certificate") -> str:
    """The whole certificate in one sentence."""
    good = [rule for rule in certificate.rules if rule.certified]
    bad = [rule for rule in certificate.rules if not rule.certified]
    sure = certainty(certificate.delta)
    many = len(certificate.rules) > 1
    parts = []
    if good:
        first = f"With {sure} certainty" + (", for all of this at once: " if many else ", ")
        parts.append(first + "; ".join(_promise(rule, certificate.by) for rule in good))
    parts += [f"no answers{_failure(rule, certificate.by, sure, certificate.method)}" for rule in bad]
    text = "; ".join(parts)
    if good:
        text += ", provided that " + "; that ".join(assumptions(certificate))
    return f"{text[0].upper()}{text[1:]} (method: {certificate.method})."


def assumptions(certificate: "Certificate") -> list[str]:
    """What must be true for the promise to hold, each as a part of a sentence."""
    found = [SOURCE]
    if NEEDS[certificate.method]:
        found.append(NEEDS[certificate.method])
    found.append("no other certificate was tried on them and thrown away")
    if certificate.by not in (None, "label"):  # an answer's own label is always known
        found.append(f"the {certificate.by} of a case is known before its right answer is")
    found += [str(note) for note in certificate.details.get("assumptions", ())]
    # A few equal ones come with rounding, and do no harm.
    if certificate.ties > 0.01 * certificate.m and certificate.method not in ("grid", "band"):
        found[1] += f"; here {certificate.ties:,} of {certificate.m:,} confidences equal another"
    return found


def _promise(rule: "Rule", by: str | None) -> str:
    which = "all answers" if rule.threshold == -math.inf else "the answers"
    where = "" if rule.group is None else f" where {by} is {rule.group}"
    above = "" if rule.threshold == -math.inf else f" with a confidence above {confidence_text(rule.threshold)}"
    limits = " and ".join(f"at most {percent(risk)} {_suffer(name)}" for name, risk in rule.risks.items())
    counts = " and ".join(f"{count:,} {_suffer(name, count)}" for name, count in rule.errors.items())
    seen = f"{rule.n:,} of {_cases(rule.m)}, {100 * rule.coverage:.1f} %, are accepted, and of these {counts}"
    return f"of {which}{where}{above} {limits} ({seen})"


def _failure(rule: "Rule", by: str | None, sure: str, method: str) -> str:
    where = "" if rule.group is None else f" where {by} is {rule.group}"
    limits = " and ".join(f"at most {percent(risk)} {_suffer(name)}" for name, risk in rule.risks.items())
    if rule.hopeless:
        why = f"errors among the {_cases(rule.m)} reach that at every threshold: more labels will not help"
    elif rule.needed is None and method == "grid":
        why = f"the strictest of the thresholds accepts too few of the {_cases(rule.m)}, or too many errors among them"
    elif rule.needed is None:
        why = f"the {_cases(rule.m)} have too many errors among the most confident, where this method must begin"
    elif rule.m == 0:
        why = f"there are no calibration cases: it takes at least {rule.needed:,}"
    else:
        few = "is" if rule.m == 1 else "are"
        why = f"the {_cases(rule.m)} {few} too few: it would take about {rule.needed:,}"
    return f"{where} can be accepted with the promise, of {sure} certainty, that {limits}, because {why}"


def _cases(m: int) -> str:
    return f"{m:,} calibration case{'' if m == 1 else 's'}"


def _suffer(harm: str, count: int = 2) -> str:
    one = count == 1
    verb = "is" if one else "are"
    if harm == "wrong":
        return f"{verb} wrong"
    kind, _, name = harm.partition(" ")
    if kind == "missed" and name:
        return f"{'is a case' if one else 'are cases'} of {name} under another name"
    if kind == "false" and name:
        return f"wrongly {'says' if one else 'say'} {name}"
    return f"{'has' if one else 'have'} the harm '{harm}'"


def percent(share: float) -> str:
    """A share as people read it: 2 %, 0.5 %, 99.9 %; with all its digits, since a promise is not rounded."""
    return f"{100 * share:.10g} %"


def certainty(delta: float) -> str:
    """1 - delta as people read it; never 100 %."""
    text = percent(1 - delta)
    return "over 99.9999999 %" if text == "100 %" else text


def confidence_text(confidence: float) -> str:
    """A confidence with the digits that matter: near 1 these are the last ones."""
    if not 0.001 <= confidence < 1:
        return f"{confidence:.6g}"
    digits = min(max(4, math.ceil(-math.log10(1 - confidence)) + 2), 17)
    text = f"{confidence:.{digits}f}"
    # Upwards: what is above the number shown is then above the threshold, too.
    return text if float(text) >= confidence else f"{confidence + 0.5 * 10.0**-digits:.{digits}f}"


def risks_text(risks: Mapping[str, Any]) -> str:
    """Several harms' risks on one line."""
    return ", ".join(f"{name} {percent(risk)}" for name, risk in risks.items())
