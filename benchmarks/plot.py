"""Draw figures in docs/images from the records in benchmarks/results; figures without a record are left unchanged."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from benchmarks.harness import RESULTS
from squad.records import Record

IMAGES = Path(__file__).parents[1] / "docs" / "images"
COLORS = {"eager": "#1b6ca8", "reference": "#c0562f", "eager in one piece": "#7a9a3a", "floor": "#8c8c8c"}
BACKENDS = {  # what each backend of the record is
    "reference": "reference: plain formula in torch",
    "eager in one piece": "eager without its blocks",
    "eager": "eager: the default on a CPU, in blocks",
    "floor": "floor: logits read twice, gradient written once, no arithmetic",
}
METHODS = {  # colour, marker
    "fallback": ("#1b6ca8", "o"),
    "fixed_sequence": ("#c0562f", "s"),
    "sgr": ("#7a9a3a", "^"),
    "bonferroni": ("#8a5fa8", "v"),
    "band": ("#8c8c8c", "D"),
    "pareto": ("#b8860b", "P"),
}


def op_bins(record: Record) -> None:
    """Plot time and memory against C, with fitted straight lines."""
    device = record.settings["device"]
    where = (
        record.machine.get("gpu", record.machine["cpu"])
        if device == "cuda"
        else f"{record.machine['threads']} CPU threads"
    )
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
    for backend, label in BACKENDS.items():
        if backend not in record.results:
            continue
        found, color = record.results[backend], COLORS[backend]
        bins = found["bins"]
        series = [
            (axes[0], [t["median"] * 1e3 for t in found["seconds"]], found["time_fit"], 1e3),
            (axes[1], [b / 2**20 for b in found["bytes"]], found["memory_fit"], 1 / 2**20),
        ]
        for axis, y, line, unit in series:
            axis.plot(bins, y, "o", color=color, markersize=5, label=label)
            axis.plot([0, bins[-1]], [unit * (line["start"] + line["slope"] * c) for c in (0, bins[-1])], color=color)
        low, high = ([t[q] * 1e3 for t in found["seconds"]] for q in ("q25", "q75"))
        axes[0].vlines(bins, low, high, color=color, alpha=0.5)
    axes[0].set(title="time: median and quartiles", ylabel="milliseconds")
    axes[1].set(title="peak memory of live tensors", ylabel="MiB")
    for axis in axes:
        axis.set(xlabel="number of bins C", xlim=(0, None), ylim=(0, None))
        axis.title.set_fontsize(11)
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.suptitle(
        "One sample of each latent and its KL, forward and backward: "
        f"N = {record.settings['N']:,} rows, K = {record.settings['K']} latents, {where}\n"
        "Each dot is the measurement of one C; the lines are straight lines fitted to them.",
        fontsize=11,
    )
    figure.savefig(IMAGES / f"op_bins-{device}.png", dpi=130)


def certify_coverage(record: Record) -> None:
    """Plot coverage against the size of the calibration set.

    One row of axes per population, one column per target, one line per method.
    """
    shown = ["well ranked", "overconfident at the top"]
    targets, sizes = record.settings["targets"], record.settings["sizes"]
    figure, axes = plt.subplots(2, len(targets), figsize=(11, 5.6), sharex=True, sharey=True, layout="constrained")
    for row, population in zip(axes, shown, strict=True):
        for axis, target in zip(row, targets, strict=True):
            cells = [c for c in record.results if (c["population"], c["target"]) == (population, target)]
            best = axis.axhline(100 * cells[0]["oracle"], color="black", linestyle="--", linewidth=1)
            best.set_label("oracle: largest coverage that meets the target")
            for order, (method, (color, marker)) in enumerate(METHODS.items()):
                y = [100 * cell["methods"][method]["coverage"] for cell in cells]
                default = method == record.settings["default"]
                axis.plot(
                    sizes,
                    y,
                    color=color,
                    marker=marker,
                    markersize=6 if default else 4,
                    linewidth=2.2 if default else 1.2,
                    label=f"{method} (default)" if default else method,
                    zorder=4 - order / 10 if default else 5 - order / 10,  # thin lines over the thick one
                )
            axis.set(xscale="log", ylim=(-3, 100), title=f"{population}\nrisk at most {target:.1%}")
            axis.title.set_fontsize(9)
            axis.set_xticks(sizes, [f"{m:,}" for m in sizes], fontsize=8)
            axis.minorticks_off()
            axis.grid(axis="y", color="#e6e6e6", linewidth=0.8)
            axis.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel("coverage, %")
    for axis in axes[-1]:
        axis.set_xlabel("calibration cases m")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=7, frameon=False, fontsize=9)
    figure.suptitle(
        f"Coverage of each method: mean of {record.settings['repetitions']:,} samples "
        f"({record.settings['fewer_repetitions']:,} for band and pareto), the same for all, "
        f"delta = {record.settings['delta']:g}",
        fontsize=11,
    )
    figure.savefig(IMAGES / "certify_coverage.png", dpi=130)


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    for path in sorted(RESULTS.glob("op_bins-*.json")):
        op_bins(Record.load(path))
        print(f"drawn: {path.stem}")
    if (path := RESULTS / "certify_coverage.json").exists():
        certify_coverage(Record.load(path))
        print(f"drawn: {path.stem}")


if __name__ == "__main__":
    main()
