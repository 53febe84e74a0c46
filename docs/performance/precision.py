"""Cost of prediction in float64 on a CPU."""

from pathlib import Path

from docs.performance.records import read, where


def precision_text(results: Path | None = None) -> str:
    """Return a paragraph with the ratios of the times in float64 and float32."""
    record = read("predict_precision", results)
    ratios = [one["ratio"] for one in record.results]
    default = next(one for one in record.results if (one["network"], one["sampling"], one["samples"]) == DEFAULT)
    return (
        f"On a CPU, prediction is computed in float64, so that confidences and decisions are the same on every"
        f" processor ([determinism](../explanation/determinism.md)). This takes"
        f" {min(ratios):.1f} to {max(ratios):.1f} times as long"
        f" as in the network's own float32, and {default['ratio']:.1f} times for the default, 8 stratified samples"
        f" ([predict_precision.py](../../benchmarks/predict_precision.py); {where(record)}, {record.date[:10]})."
    )


#: Network, sampling mode and number of samples of a plain ``SquadClassifier``.
DEFAULT = ("squad", "stratified", 8)
