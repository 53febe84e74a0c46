"""docs/evidence/validity.md: tables about dependent rows and the leakage check."""

from docs.sections.markdown import table
from squad.records import Record

__all__ = [
    "dependent_rows_table",
    "exact_and_near_table",
    "false_alarm_table",
    "near_copies_table",
    "repeated_rows_text",
    "true_risk_table",
]


def dependent_rows_table(record: Record) -> str:
    """Compare the rate of false certificates with all rows of a group and with one row per group."""
    lines = [["rows per group", "groups", "false certificates, all rows", "one row per group"]]
    for one in record.results["groups"]:
        shown = [f"{100 * one[name]:.1f} %" for name in ("all rows", "one")]
        lines.append([str(one["rows"]), f"{one['groups']:,}", *shown])
    return table(lines)


def false_alarm_table(record: Record) -> str:
    """Show how often calibration sets of new rows are refused."""
    lines = [["kinds of rows", "training, validation, calibration", "refused by a binomial test", "by the test used"]]
    for one in record.results["tables"]:
        shown = [f"{100 * one[name]:.1f} %" for name in ("binomial", "used")]
        kinds = f"{one['kinds']:,}" + (", some more frequent" if one["power"] else "")
        lines.append([kinds, ", ".join(f"{size:,}" for size in one["sizes"]), *shown])
    return table(lines)


def near_copies_table(record: Record) -> str:
    """Show how often sets with near copies are found, by exact hashes alone and with cells, per change and fraction."""
    found = record.results["copies"]
    every = sorted({one["features"] for one in found})
    lines = [["change", "copies", *(f"{count} features" if count > 1 else "1 feature" for count in every)]]
    for change, share in dict.fromkeys((one["change"], one["share"]) for one in found):
        cells = {one["features"]: one for one in found if (one["change"], one["share"]) == (change, share)}
        shown = [f"{100 * cells[count]['before']:.0f} → {100 * cells[count]['after']:.0f} %" for count in every]
        lines.append([change, f"{100 * share:.0f} %", *shown])
    return table(lines)


def true_risk_table(record: Record) -> str:
    """Show the true risks of models certified on near copies, by exact hashes alone and with cells."""
    heads = [head for check in ("exact hashes", "with cells") for head in (f"certified, {check}", "true risk")]
    lines = [["features", "change", "copies", *heads]]
    for one in record.results["risks"]:
        shown = []
        for when in ("before", "after"):
            true = [risk for risk in one[when] if risk is not None]
            span = f"{100 * min(true):.1f} to {100 * max(true):.1f} %" if true else ""
            shown += [f"{len(true)} of {len(one[when])}", span]
        lines.append([str(one["features"]), one["change"], f"{100 * one['share']:.0f} %", *shown])
    return table(lines)


def repeated_rows_text(record: Record) -> str:
    """Describe how often copies are found among rows that repeat each other."""
    cells = record.results["repeating"]
    sets = record.settings["runs"] * len(cells)
    found = round(sum(one["after"] for one in cells) * record.settings["runs"])
    names = ", ".join(dict.fromkeys(one["table"] for one in cells))
    return (
        "Copies are found as well where the calibration rows repeat each other, which new rows of such tables hardly"
        " ever do: training rows drawn with replacement (a third or 95 % of the set), or once each among new rows of"
        f" which 8 or 30 occur twice. In tables with {names}: in {found:,} of {sets:,} sets."
    )


def exact_and_near_table(record: Record) -> str:
    """Show how many sets of new rows are refused and rows left out, by exact hashes alone and with cells."""
    lines = [["table", "fit, calibration", "refused", "rows left out", "equals removed: refused", "rows left out"]]
    found = record.results["honest"]
    for one in (one for one in found if not one["distinct"]):
        key = one["table"], one["sizes"]
        other = next(two for two in found if two["distinct"] and (two["table"], two["sizes"]) == key)
        shown = [
            f"{100 * each[f'{what}before']:.1f} → {100 * each[f'{what}after']:.1f} %"
            for each in (one, other)
            for what in ("", "left out ")
        ]
        lines.append([one["table"], ", ".join(f"{size:,}" for size in one["sizes"]), *shown])
    sets = record.settings["sets"]
    refused = [round(sets * sum(one[when] for one in found)) for when in ("before", "after")]
    text = f"In all {refused[0]:,} → {refused[1]:,} of {sets * len(found):,} sets are refused ({sets} per table)."
    return f"{table(lines)}\n\n{text}"
