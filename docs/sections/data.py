"""docs/guides/tables.md: how well rows unlike the training rows are found."""

from docs.sections.markdown import table
from squad.records import Record

__all__ = ["novelty_text"]


def novelty_text(record: Record) -> str:
    """Show how many rows unlike the training rows, and how many unmodified rows, are referred."""
    found = record.results["summary"]
    mistakes = list(next(iter(found.values()))["caught"])
    lines = [["rows referred, %", "unmodified", "worst table", *mistakes]]
    for rule, one in found.items():
        caught = (f"{100 * share:.0f}" for share in one["caught"].values())
        lines.append([rule, f"{100 * one['honest']:.2f}", f"{100 * one['worst']:.2f}", *caught])
    bare, checked = record.results["network"].values()
    kept = [round(100 * one["honest accepted"], 1) for one in (bare, checked)]
    unmodified = (
        "Of unmodified rows, all are accepted with and without it."
        if kept == [100, 100]
        else f"Of unmodified rows, {kept[0]} % are accepted without it and {kept[1]} % with it."
    )
    text = (
        f"Means over {record.settings['tables']} tables. On scikit-learn's breast cancer table, a network certified at"
        f" {100 * record.settings['risk']:g} % risk and one column at a time multiplied by 1,000: without the check"
        f" {100 * bare['accepted']:.1f} % of these rows are accepted (mean over the columns), and with the worst column"
        f" {100 * bare['worst column errors among accepted']:.0f} % of the accepted are wrong; with it"
        f" {100 * checked['accepted']:.1f} % are accepted. {unmodified}"
    )
    counts = list(next(iter(next(iter(record.results["few_rows"].values())).values())))
    few = [["unmodified rows referred, %", "", *(f"{int(count):,} training rows" for count in counts)]]
    for name, of in record.results["few_rows"].items():
        for rule, by in of.items():
            few.append([name, rule, *(f"{100 * by[count]['honest']:.2f}" for count in counts)])
    heavy = record.results["few_rows"]["log-normal, sigma 2"]
    before, after = (100 * of[counts[0]]["one column x 1000"] for of in heavy.values())
    tails = (
        f"{record.settings['few_columns']} independent columns of one distribution, with and without the extrapolation"
        " of tails. How tails are extrapolated was chosen among several ways on these same distributions. It has a"
        f" price: of log-normal columns with sigma 2, learned from {counts[0]} rows, {after:.0f} % of the rows with one"
        f" column x 1000 are referred, and {before:.0f} % without the extrapolation. Tails as heavy as Cauchy's are"
        " heavier than it assumes."
    )
    return f"{table(lines)}\n\n{text}\n\n{table(few)}\n\n{tails}"
