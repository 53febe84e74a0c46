"""Time of validation passes during training: matrix products in TF32 and in float32."""

from pathlib import Path

from docs.performance.markdown import number, table
from docs.performance.records import read, where


def validation_table(results: Path | None = None) -> str:
    """Return a table with one row per network, with as many samples as a trial of a search draws."""
    record = read("validation_look-cuda", results)
    lines = [["network", "samples", "TF32, ms (quartiles)", "float32, ms (quartiles)", "ratio"]]
    for name, one in record.results.items():
        settings = record.settings["asked"][name]
        cells = []
        for precision in ("tf32", "float32"):
            low, median, high = (number(1e3 * one["seconds"][precision][key]) for key in ("q25", "median", "q75"))
            cells.append(f"{median} ({low} to {high})")
        samples = f"{settings['num_samples']}" + " stratified" * (settings["sampling"] == "stratified")
        lines.append([name, samples, *cells, f"{one['ratio']:.2f}"])
    hidden = " x ".join(str(size) for size in record.settings["hidden"])
    note = f"{record.settings['rows']:,} rows with {record.settings['inputs']:,} features, hidden layers {hidden}"
    return f"{note}, {where(record)}, {record.date[:10]}.\n\n{table(lines)}"
