"""docs/evidence/validity.md: tables about coverage and validity of certificates."""

from docs.sections.markdown import table
from squad.records import Record

__all__ = [
    "attempt_coverage_table",
    "betting_table",
    "coverage_table",
    "default_behind_table",
    "overconfident_table",
    "planning_table",
    "repeated_attempts_table",
    "several_harms_table",
    "speed_table",
    "validity_table",
    "weighted_samples_table",
]


def coverage_table(record: Record, population: str = "well ranked") -> str:
    """Show the coverage of each method on a population."""
    sizes, targets, methods = (record.settings[name] for name in ("sizes", "targets", "methods"))
    cells = {(cell["m"], cell["target"]): cell for cell in record.results if cell["population"] == population}
    lines = [["method", *(f"m = {m:,}" for m in sizes)]]
    oracle = " / ".join(f"{100 * cells[sizes[0], target]['oracle']:.0f}" for target in targets)
    lines.append(["the most that keeps the target", *[oracle] * len(sizes)])
    for name in methods:
        shown = [
            " / ".join(f"{100 * cells[m, target]['methods'][name]['coverage']:.0f}" for target in targets)
            for m in sizes
        ]
        called, _, way = name.partition(", ")
        lines.append([f"`{called}`" + (f", {way}" if way else ""), *shown])
    return table(lines)


def overconfident_table(record: Record) -> str:
    """Show the coverage of each method on overconfident scores."""
    return coverage_table(record, "overconfident at the top")


def several_harms_table(record: Record) -> str:
    """Compare the coverage with delta divided between harms and with the full delta for each."""
    lines = [["harms", "m", "delta divided between harms", "the full delta for each"]]
    for one in record.settings["several_harms"]:
        shown = [
            f"{100 * one[way]['coverage']:.1f} ± {100 * one[way]['coverage_error']:.1f} %"
            for way in ("divided", "full")
        ]
        lines.append([str(one["harms"]), f"{one['m']:,}", *shown])
    return table(lines)


def validity_table(record: Record) -> str:
    """Show the worst cell per method and population: the rate of false certificates, and the allowed rate."""
    methods = list(dict.fromkeys(cell["method"] for cell in record.results))
    lines = [["population", *(f"`{name}`" for name in methods)]]
    for population in dict.fromkeys(cell["population"] for cell in record.results):
        shown = []
        for name in methods:
            cells = [cell for cell in record.results if (cell["method"], cell["population"]) == (name, population)]
            worst = max(cells, key=lambda cell: cell["violations"] / cell["delta"])
            mark = "" if worst["proven"] else " *"
            alarm = "" if all(cell["verdict"].startswith("held") for cell in cells) else " **too many**"
            shown.append(f"{100 * worst['violations']:.2f} of {100 * worst['delta']:g} %{mark}{alarm}")
        lines.append([population, *shown])
    count = len(record.results)
    held = all(cell["verdict"].startswith("held") for cell in record.results)
    note = (
        f"{count} cells, {record.settings['repetitions']:,} samples each; "
        + ("none" if held else "**some**")
        + f" was above its delta by an exact binomial test at .001 / {count}."
    )
    return f"{table(lines)}\n\n\\* tested, not proven. {note}"


def default_behind_table(record: Record) -> str:
    """Show the worst cells, in which the default method accepts less than a fixed sequence."""
    lines = [["population", "m", "target", "points behind `fixed_sequence`, at worst"]]
    for name in record.settings["populations"]:
        cells = [cell for cell in record.results if cell["population"] == name]
        worst = min(cells, key=lambda cell: cell["methods"]["fixed_sequence"]["default_ahead"])
        single = worst["methods"]["fixed_sequence"]
        shown = f"{-100 * single['default_ahead']:.2f} ± {100 * single['default_ahead_error']:.2f}"
        lines.append([name, f"{worst['m']:,}", f"{100 * worst['target']:g} %", shown])
    return table(lines)


def betting_table(record: Record) -> str:
    """Compare the numbers of labels that tests need for costs of 0 and 1."""
    lines = [["risk", "error rate", "exact binomial", "betting", "Hoeffding-Bentkus"]]
    for one in record.results["labels"]:
        shown = [f"{one[name]:,} ({one[name] / one['exact']:.2f})" for name in ("bets", "hoeffding-bentkus")]
        rates = [f"{100 * one['risk']:g} %", f"{100 * one['risk'] * one['share']:.3g} %"]
        lines.append([*rates, f"{one['exact']:,}", *shown])
    return table(lines)


def weighted_samples_table(record: Record) -> str:
    """Compare false certificates and coverage for miss rates, costs, weights and strata, without and with them."""
    heads = [f"{what}, {way}" for what in ("false", "coverage") for way in ("without", "with")]
    lines = [["option", "population", "m", *heads]]
    cells = {(one["subject"], one["population"], one["way"]): one for one in record.results["cells"]}
    for subject, population, way in cells:
        if way == "before":
            before, after = (cells[subject, population, which] for which in ("before", "after"))
            shown = [f"{100 * one[name]:.1f} %" for name in ("violations", "coverage") for one in (before, after)]
            lines.append([subject, population, f"{before['m']:,}", *shown])
    return table(lines)


def planning_table(record: Record) -> str:
    """Compare the probabilities that ``plan`` states with simulated frequencies."""
    heads = ["risk", "errors", "coverage", "method", "labels", "stated", "simulated", "ranked"]
    lines = [[*heads, "labels for a single test", "their success"]]
    for one in record.results["cells"]:
        shown = [f"{100 * one[name]:.1f} %" for name in ("stated", "simulated", "ranked")]
        old = [f"{one['before']['m']:,}", f"{100 * one['before']['simulated']:.0f} %"]
        shares = [f"{100 * one['risk']:g} %", f"{100 * one['error']:g} %", f"{100 * one['coverage']:g} %"]
        lines.append([*shares, f"`{one['method']}`", f"{one['m']:,}", *shown, *old])
    pilots = [["risk", "coverage", "method", "labels", "stated", "simulated"]]
    for one in record.results["pilots"]:
        shown = [f"{100 * one[name]:.1f} %" for name in ("stated", "simulated")]
        shares = [f"{100 * one[name]:g} %" for name in ("risk", "coverage")]
        pilots.append([*shares, f"`{one['method']}`", f"{one['m']:,}", *shown])
    every = [*record.results["cells"], *record.results["pilots"]]
    apart = max(abs(one["stated"] - one["simulated"]) for one in every)
    return (
        f"{table(lines)}\n\nFrom a pilot of {record.settings['pilot']:,} cases, for cases drawn from it:\n\n"
        f"{table(pilots)}\n\nStated and simulated are at most {100 * apart:.1f} points apart."
    )


def repeated_attempts_table(record: Record) -> str:
    """Show the rate of false certificates when certification is repeated until it succeeds."""
    lines = [["rows of the next attempt", "all of delta each time", "shares of delta"]]
    for one in record.results["false"]:
        lines.append([one["rows"], *(f"{100 * one[name]:.1f} %" for name in ("before", "after"))])
    return table(lines)


def attempt_coverage_table(record: Record) -> str:
    """Show the coverage of the first attempts."""
    lines = [["m", "target", "all of delta", "attempt 1", "attempt 2", "attempt 3"]]
    for one in record.results["coverage"]:
        shown = [f"{100 * one[name]:.1f} %" for name in ("only", "1", "2", "3")]
        lines.append([f"{one['m']:,}", f"{100 * one['target']:g} %", *shown])
    return table(lines)


def speed_table(record: Record) -> str:
    """Show running times in units of sorting the same numbers."""
    names = ("aurc", "augrc", "certify")
    lines = [["confidences", *(f"`{name}`, in sorts" for name in names)]]
    for case in record.results:
        shown = [case["sorts"][name] for name in names]
        lines.append(
            [case["confidence"], *(f"{one['median']:.1f} ({one['q25']:.1f} to {one['q75']:.1f})" for one in shown)]
        )
    return table(lines)
