"""Looks at validation rows while training: products in TF32 and in float32."""

from pathlib import Path

from docs.performance.markdown import number, table
from docs.performance.records import read, where


def looks_table(results: Path | None = None) -> str:
    """A row a network, with the samples that a trial of a search draws."""
    record = read("validation_look-cuda", results)
    lines = [["network", "samples", "TF32, ms (quartiles)", "float32, ms (quartiles)", "ratio"]]
    for name, one in record.results.items():
        asked = record.settings["asked"][name]
        shown = []
        for precision in ("tf32", "float32"):
            low, middle, high = (number(1e3 * one["seconds"][precision][key]) for key in ("q25", "median", "q75"))
            shown.append(f"{middle} ({low} to {high})")
        samples = f"{asked['num_samples']}" + " stratified" * (asked["sampling"] == "stratified")
        lines.append([name, samples, *shown, f"{one['ratio']:.2f}"])
    hidden = " x ".join(str(size) for size in record.settings["hidden"])
    note = f"{record.settings['rows']:,} rows of {record.settings['inputs']:,} numbers, hidden layers {hidden}"
    return f"{note}, {where(record)}, {record.date[:10]}.\n\n{table(lines)}"
