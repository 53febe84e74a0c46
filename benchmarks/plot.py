"""Draw docs/images from the records in benchmarks/results; a picture whose record is missing is left as it is."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.harness import RESULTS
from squad.records import Record

IMAGES = Path(__file__).parents[1] / "docs" / "images"
COLORS = {"eager": "#1b6ca8", "reference": "#c0562f", "eager in one piece": "#7a9a3a"}


def op_bins(record: Record) -> None:
    """Time and memory against C, with the straight line through them."""
    device = record.settings["device"]
    where = (
        record.machine.get("gpu", record.machine["cpu"])
        if device == "cuda"
        else f"{record.machine['threads']} CPU threads"
    )
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for backend, found in record.results.items():
        color = COLORS[backend]
        bins = found["bins"]
        series = [
            (axes[0], [t["median"] * 1e3 for t in found["seconds"]], found["time_fit"], 1e3),
            (axes[1], [b / 2**20 for b in found["bytes"]], found["memory_fit"], 1 / 2**20),
        ]
        for axis, y, line, unit in series:
            axis.plot(bins, y, "o", color=color, markersize=5)
            ends = [0, bins[-1]]
            label = f"{backend} (line: R² = {line['r2']:.3f})"
            axis.plot(
                ends,
                [unit * (line["start"] + line["slope"] * c) for c in ends],
                "-",
                color=color,
                label=label,
            )
        low, high = ([t[q] * 1e3 for t in found["seconds"]] for q in ("q25", "q75"))
        axes[0].vlines(bins, low, high, color=color, alpha=0.5)
    axes[0].set_ylabel("milliseconds, median and quartiles")
    axes[1].set_ylabel("MiB of tensors alive at the most")
    for axis in axes:
        axis.set(
            xlabel="C, the number of bins", xlim=(0, None), ylim=(0, 1.25 * axis.get_ylim()[1])
        )  # room for the legend
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    figure.suptitle(
        f"Sampling + KL, forward and backward: N = {record.settings['N']}, K = {record.settings['K']}, float32, {where}"
    )
    figure.savefig(IMAGES / f"op_bins-{device}.png", dpi=150)


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    for path in sorted(RESULTS.glob("op_bins-*.json")):
        op_bins(Record.load(path))
        print(f"drawn: {path.stem}")


if __name__ == "__main__":
    main()
