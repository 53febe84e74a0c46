"""Section on what is guaranteed, what was observed, and which class is missed most often."""

from squad.report.markup import Markup, element, join, plain_table
from squad.report.number_format import NBSP, count, exact_percent, percent, percent_rounded_up, plural
from squad.report.page.building_blocks import EMPTY_CELL, fold, section, side_by_side
from squad.report.page.mistakes import harm_name
from squad.report.report_data import Guarantee, ModelReport, ReportData, RuleRow
from squad.report.weakest_class import (
    MOST_TIMES,
    NO_ATTEMPT_LEFT,
    NONE_ACCEPTED,
    SUGGESTED_LIMITS,
    TOO_FEW,
    UNLIKELY,
    Obstacle,
    Suggestion,
    WeakestClass,
    certify_option,
)
from squad.selective.attempts import MAX_ATTEMPTS, delta_share
from squad.selective.certificate_text import punctuated
from squad.selective.risk_text import MISS_RATE, WRONG

__all__ = ["guarantee"]

#: Definitions of the terms used throughout the page.
DEFINITIONS = (
    "A prediction is accepted if its confidence is above a threshold. Otherwise the model abstains, and the case is"
    " referred to a reviewer. Coverage is the fraction of cases that are accepted; selective risk is the error rate"
    " among accepted cases."
)
#: Warning if the test set contradicts the guarantee.
VIOLATION = (
    "The test set has more errors than the guarantee allows, and more than chance explains. The test cases may come"
    " from a different distribution than the calibration cases, and new cases may, too. Do not rely on the guarantee"
    " until you know the reason."
)
#: With fewer test cases, a caution says so; and the number of classes without a test case that are named.
MIN_TEST_CASES, MAX_ABSENT = 30, 5
#: Why no limit for the miss rate of the weakest class is suggested.
OBSTACLES: dict[Obstacle, str] = {
    NONE_ACCEPTED: "None of the test cases is accepted, so that they cannot tell which bound is likely.",
    NO_ATTEMPT_LEFT: (
        "This model has used all of its attempts to be certified. Fit a new one to bound the miss rate of this class."
    ),
    TOO_FEW: "There are too few accepted test cases of this class to tell which bound is likely.",
    UNLIKELY: (
        f"As far as the test set can tell, a bound of {exact_percent(SUGGESTED_LIMITS[-1])} or less is unlikely, even"
        f" with {MOST_TIMES} times as many calibration cases."
    ),
}


def guarantee(report: ReportData) -> Markup:
    """Render the certificate of each model and what was observed on the test set."""
    return section(
        "guarantee",
        "Can I rely on it?" if len(report.models) == 1 else "Can I rely on them?",
        DEFINITIONS,
        side_by_side(report.models, lambda _, model: _model_card(model)),
    )


def _model_card(model: ModelReport) -> Markup:
    certificate = model.guarantee
    parts: list[Markup] = []
    if certificate is None:
        symbol, title, kind = EMPTY_CELL, "Not certified: this model has no certificate", "none"
        parts.append(
            element(
                "p",
                "There is no guarantee for new cases: everything in this report was observed on the test cases. To"
                " certify the model with calibration cases, run ",
                element("code", "squad certify"),
                f".{_attempts_text(model)}",
            )
        )
    elif not certificate.certified:
        symbol, title, kind = "✕", certificate.title, "bad"
        text = f"{certificate.failure} Every case is referred to a reviewer.".lstrip()
        parts.append(element("p", _keep_percent_together(text)))
    else:
        # A good average can hide a bad class, so the tick is for models without one.
        mixed = (model.weakest is not None and model.weakest.exceeds) or _is_trivial(model)
        symbol, kind = ("!", "bad") if certificate.violated else ("!", "mixed") if mixed else ("✓", "good")
        title = certificate.title
        parts.append(
            element("p", _keep_percent_together(f"{certificate.accepted[0].upper()}{certificate.accepted[1:]}."))
        )
    badge = element("span", symbol, class_=f"badge {kind}", aria_hidden="true")
    headline = element("p", _keep_percent_together(title), class_="headline")
    weakest = None if model.weakest is None else element("p", _weakest_text(model, model.weakest), class_="weakest")
    parts = [element("div", badge, element("div", headline, weakest), class_="verdict"), *parts]
    if _is_trivial(model):
        name, error_rate = _most_frequent(model)
        parts.append(
            element(
                "p",
                f"Predicting “{name}” for every case would be wrong in {percent(error_rate)} of the test cases, which"
                " is no more than the guaranteed risk. Bound the miss rates of the other classes, or choose a smaller"
                " risk.",
            )
        )
    parts += [] if model.weakest is None else [_suggestion(model, model.weakest)]
    if certificate is not None:
        if certificate.violated:
            parts.append(_alert(VIOLATION))
        parts.append(_certificate_text(certificate))
    parts += [*(_alert(text) for text in _test_set_problems(model)), _observed_tiles(model)]
    parts += [_rows_left_out(model)] if model.unreadable or model.unlabelled or model.excluded else []
    return join(*parts)


def _most_frequent(model: ModelReport) -> tuple[str, float]:
    """Return the most frequent class of the test set, and the error rate of predicting it for every case."""
    sizes = [sum(row) for row in model.confusions.every]
    return model.classes[sizes.index(max(sizes))], 1 - max(sizes) / model.used


def _is_trivial(model: ModelReport) -> bool:
    """Return whether the certificate guarantees no more than predicting the most frequent class would give."""
    certificate = model.guarantee
    if certificate is None or not certificate.certified or certificate.by is not None:
        return False
    risks = [rule.risks for rule in certificate.rules if rule.accepts != "none"]
    _, error_rate = _most_frequent(model)
    return all(each.keys() == {WRONG} and each[WRONG] >= error_rate > 0 for each in risks)


def _attempts_text(model: ModelReport) -> str:
    """Say how a model without a certificate was tried to be certified, and what is left of delta."""
    if not model.attempts:
        return ""
    number, last = len(model.attempts), model.attempts[-1]
    left = _delta_left(number + 1)
    if last.get("certified", True):
        return f" {plural(number, 'attempt')} to certify it {'is' if number == 1 else 'are'} recorded. {left}"
    target = (last.get("risks") or [{}])[0]
    risks = ", ".join(f"{_within_sentence(name)} {exact_percent(risk)}" for name, risk in target.items())
    which = "The attempt to certify it" if number == 1 else f"The last of {number} attempts to certify it"
    return f" {which} failed ({risks}; {plural(last.get('m', 0), 'calibration case')}). {left}"


def _within_sentence(harm: str) -> str:
    """Describe a harm within a sentence; names of classes keep their capitals."""
    text = harm_name(harm)
    return text[:1].lower() + text[1:]


def _delta_left(attempt: int) -> str:
    if attempt > MAX_ATTEMPTS:
        return "No attempt is left."
    return f"The next attempt has {100 * delta_share(attempt):.3g}{NBSP}% of delta."


def _weakest_text(model: ModelReport, weakest: WeakestClass) -> str:
    """Name the weakest class, with its miss rate."""
    rate = percent(weakest.missed / weakest.n)
    cases = "accepted cases" if model.accepts_some else "cases"
    text = f"Weakest class: “{weakest.name}” is missed in {rate} of its {cases}"
    index = model.classes.index(weakest.name)
    others = f"; {count(weakest.referred)} more are referred" if model.accepts_some and weakest.referred else ""
    never = "" if any(row[index] for row in model.confusions.every) else " The model never predicts this class."
    return f"{text} ({count(weakest.missed)} of {count(weakest.n)} in the test set{others}).{never}"


def _suggestion(model: ModelReport, weakest: WeakestClass) -> Markup:
    """Say whether the miss rate of the weakest class is bounded, and if not, how it could be.

    New calibration cases, because those of the certificate determined which cases are accepted, and so the suggestion.
    """
    if model.guarantee is None:
        harm = element("code", f"{MISS_RATE} {weakest.name}")
        return element("p", "A certificate can bound the miss rate of this class, with the harm ", harm, ".")
    if weakest.limit is not None:
        return element("p", f"The certificate bounds the miss rate of this class at {exact_percent(weakest.limit)}.")
    target = model.target or model.guarantee.rules[0].risks
    if all(rule.accepts == "none" for rule in model.guarantee.rules if rule.risks == target):
        first = " with the first target" if model.target else ""
        return element("p", f"Nothing is certified{first}, so the miss rate of this class is not bounded.")
    unbounded = "The certificate does not bound the miss rate of this class"
    # Not where the misses may be chance.
    until = (
        " Until it is bounded, do not rely on accepted predictions where missing this class does harm."
        if weakest.exceeds
        else ""
    )
    suggestion = weakest.suggestion
    if not isinstance(suggestion, Suggestion):
        return element("p", _keep_percent_together(f"{unbounded}. {OBSTACLES[suggestion or UNLIKELY]}{until}"))
    limit = exact_percent(suggestion.risks[f"{MISS_RATE} {weakest.name}"])
    share = f"{100 * delta_share(suggestion.attempt):.3g}{NBSP}% of delta"
    enough = suggestion.cases == model.guarantee.m
    certainty = "probably" if suggestion.least > model.guarantee.m else "perhaps"
    too_small = "" if enough else f", and the calibration set is {certainty} too small to do so"
    one_threshold = "" if model.guarantee.by is None else ", and without groups"
    start = (
        f"{unbounded}{too_small}. One that bounds it at {limit} {_cases_text(suggestion, model.guarantee.m)}, none of"
        f" them from this test set{one_threshold}: "
    )
    again = ", ".join(map(_within_sentence, suggestion.assumed))
    again = f" This takes for granted that the following is certified again: {again}." if again else ""
    end = "" if enough else until
    return element(
        "p",
        start,
        element("code", _command(suggestion)),
        f". (Attempt {suggestion.attempt} to certify this model has {share}.){again}{end}",
    )


def _cases_text(suggestion: Suggestion, present: int) -> str:
    """Say with how many new calibration cases a suggested certificate is likely."""
    least, most = suggestion.least, suggestion.cases
    if most == present:
        return f"is likely with as many new calibration cases as before ({count(most)})"
    if most is None:
        return (
            f"takes {count(least)} new calibration cases or more (there are too few test cases of this class to tell"
            " how many)"
        )
    numbers = count(least) if least == most else f"{count(least)} to {count(most)}"
    return f"is likely with about {numbers} new calibration cases"


def _command(suggestion: Suggestion) -> str:
    """Return the command, or the call in Python, that makes a suggested certificate in place of the present one."""
    option, method = certify_option(suggestion.risks), suggestion.method
    if option is None or suggestion.assumed:  # costs and harms of one's own are arguments in Python
        named = "" if method is None else f", method={method!r}"
        return f"predictor.certify(..., risk={suggestion.risks}, delta={suggestion.delta!r}{named})"
    named = "" if method is None else f" --method {method}"
    return f"squad certify MODEL NEW_CASES --risk {option} --delta {suggestion.delta!r}{named} --overwrite"


def _certificate_text(certificate: Guarantee) -> Markup:
    """Render a certificate below its headline, with the texts and in the order of the terminal output."""
    parts = [element("p", _keep_percent_together(text)) for text in certificate.targets]
    if certificate.table is not None:
        head, rows = certificate.table
        cells: list[list[object]] = [
            [*map(_keep_percent_together, row), *[""] * (len(head) - len(row))] for row in rows
        ]
        parts.append(plain_table(head, cells, "What is certified"))
    if certificate.certified:
        items = [element("li", _keep_percent_together(text)) for text in punctuated(certificate.assumptions)]
        statement = _keep_percent_together(f"{certificate.statement} if")
        parts += [element("p", element("b", "Guarantee: "), statement)]
        parts += [element("ul", *items, class_="assumptions")]
    parts.append(element("p", f"Method: {certificate.method}.", class_="observed"))
    if certificate.certified:
        parts.append(_explanation(certificate))
    return join(*parts)


def _explanation(certificate: Guarantee) -> Markup:
    text = (
        "The guarantee is about the average over accepted cases, not about a single case. A confidence level of"
        f" {percent(1 - certificate.delta)} means: if the calibration cases were drawn again and again, the guarantee"
        f" would fail for at most {exact_percent(certificate.delta)} of the draws. It holds for the model as certified,"
        " with the same weights, settings and sampling mode."
    )
    acceptance = [_acceptance_text(certificate.rules[0])] if len(certificate.rules) == 1 else []
    return fold("What this means", element("p", " ".join([*acceptance, text])))


def _acceptance_text(rule: RuleRow) -> str:
    if rule.accepts == "all" or rule.threshold is None:
        return "Every prediction is accepted."
    return (
        f"A prediction is accepted if its confidence is above {percent_rounded_up(rule.threshold)}; other cases are"
        " referred to a reviewer."
    )


def _keep_percent_together(text: str) -> str:
    """Replace the space before percent signs by a non-breaking one."""
    return text.replace(" %", f"{NBSP}%")


def _test_set_problems(model: ModelReport) -> list[str]:
    """Return warnings about the validity of the test set."""
    problems = []
    if model.used < MIN_TEST_CASES:
        problems.append(
            f"The test set has only {plural(model.used, 'case')}: too few to check a guarantee, or to compare classes."
        )
    absent = [name for name, row in zip(model.classes, model.confusions.every, strict=True) if not sum(row)]
    if absent:
        names = ", ".join(f"“{name}”" for name in absent[:MAX_ABSENT]) + ("…" if len(absent) > MAX_ABSENT else "")
        problems.append(f"The test set has no case of the following classes, so their errors are unknown: {names}.")
    if model.is_calibration_set:
        problems.append(
            "The test set is the calibration set itself, so these results are no independent check of the guarantee."
            " Test with other cases."
        )
    if model.calibration_overlap:
        problems.append(
            f"About {count(model.calibration_overlap)} of the {count(model.used)} test cases are probably calibration"
            " cases: their confidences are the same. So these results are no independent check of the guarantee. Test"
            " with other cases."
        )
    if model.seen:
        problems.append(
            f"The model was built with {count(model.seen)} of the {count(model.used)} test cases. Models are more"
            " confident and more often correct on cases they have seen, so these results are too optimistic."
        )
    if not model.leakage_checked:
        problems.append(
            "It could not be checked whether the model was trained on some of these test cases, because it stores no"
            " hashes of its training rows."
        )
    return problems


def _alert(text: str) -> Markup:
    return element("p", element("b", "Caution. "), text, class_="alert", role="alert")


def _observed_tiles(model: ModelReport) -> Markup:
    name, error_rate = _most_frequent(model)
    always = f" (“{name}” for every case: {percent(1 - error_rate)})"
    tiles = [(percent(1 - model.wrong / model.used), f"accuracy on all test cases{always}")]
    if model.accepted is not None and model.guarantee is not None and model.guarantee.certified:
        readable = " that the model can read" if model.unreadable else ""
        accepted = f"coverage: {count(model.accepted)} of {plural(model.used, 'case')}{readable} accepted"
        tiles.append((percent(model.accepted / model.used), accepted))
        if model.accepted:
            wrong = model.accepted_wrong or 0
            text = f"selective risk: {count(wrong)} of {plural(model.accepted, 'accepted case')} wrong"
            tiles.append((percent(wrong / model.accepted), text))
    items = [element("li", element("b", number), element("span", text)) for number, text in tiles]
    title = f"Observed on {plural(model.used, 'test case')}, not guaranteed."
    if model.target:
        limits = ", ".join(f"{_within_sentence(name)} {percent(risk)}" for name, risk in model.target.items())
        title += f" Cases are accepted by the first target ({limits})."
    return join(element("p", title, class_="observed"), element("ul", *items, class_="tiles"))


def _rows_left_out(model: ModelReport) -> Markup:
    parts = []
    if model.unreadable:
        are = "is" if model.unreadable == 1 else "are"
        parts.append(
            f"{count(model.unreadable)} of {plural(model.rows, 'case')} {are} referred whatever the confidence, because"
            f" the model cannot read {'it' if model.unreadable == 1 else 'them'} or has never seen the like, and"
            " excluded from all results."
        )
    if model.excluded:
        are = "is" if model.excluded == 1 else "are"
        text = f"{plural(model.excluded, 'further case')} {are} excluded because another model cannot use"
        parts.append(f"{text} {'it' if model.excluded == 1 else 'them'}: models are compared on the same cases.")
    if model.unlabelled:
        have, are = ("has", "is") if model.unlabelled == 1 else ("have", "are")
        parts.append(f"{plural(model.unlabelled, 'case')} {have} no label and {are} excluded.")
    reasons = [element("li", reason) for reason in model.reasons]
    more = model.unreadable - len(model.reasons)
    if more:
        reasons.append(element("li", f"and {count(more)} more"))
    return element(
        "div", element("p", " ".join(parts)), fold("Why?", element("ul", *reasons)) if reasons else None, class_="note"
    )
