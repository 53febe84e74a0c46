"""What docs/performance.md shows: claims, tables and pictures, all from the records in benchmarks/results.

Whether a claim is met is computed here from its record, never typed.  A claim whose record is missing stays on the page
as "not measured"; a picture whose record is missing is an error that names the command.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from squad.errors import SquadError
from squad.records import Record

ROOT = Path(__file__).resolve().parents[1]
RESULTS, IMAGES = ROOT / "benchmarks" / "results", ROOT / "docs" / "images"
#: Where the links of the page lead.
SCRIPTS = "../benchmarks"

Spread = Mapping[str, float]

#: What writes each record, and its script.
COMMANDS = {
    "op_bins-cpu": ("make bench", "op_bins.py"),
    "op_cpu": ("make bench", "op_cpu.py"),
    "op_gpu": ("make bench-gpu", "op_gpu.py"),
    "step_cpu": ("make bench", "step_cpu.py"),
    "step_gpu": ("make bench-gpu", "step_gpu.py"),
    "predict_samples-cpu": ("make bench", "predict_samples.py"),
    "predict_samples-cuda": ("make bench-gpu", "predict_samples.py"),
    "svhn_epoch-cuda": ("make bench-gpu", "svhn_epoch.py"),
    "fashion_mnist-cpu": ("make bench-fashion", "fashion_mnist.py"),
    "fashion_mnist-cuda": ("make bench-gpu", "fashion_mnist.py"),
    "side_by_side": ("make bench-others", "side_by_side"),
}

#: Colour and marker of a way to sample.
SAMPLINGS = {
    "stratified": ("#1b6ca8", "o"),
    "relaxed": ("#c0562f", "s"),
    "hard": ("#7a9a3a", "^"),
    "mean": ("#8a5fa8", "D"),
}
#: Colour of a backend, the same in every picture.
BACKENDS = {
    "eager": "#1b6ca8",
    "reference": "#c0562f",
    "eager in one piece": "#7a9a3a",
    "compile": "#8a5fa8",
    "triton": "#111111",
    "factorized": "#c9a227",
}
FLOOR: dict[str, Any] = {"color": "#555555", "linestyle": "--", "linewidth": 1.2}


class MissingRecordError(SquadError):
    """A record that has not been made yet."""


def read(name: str, results: Path | None = None) -> Record:
    """The record called ``name``."""
    path = (results or RESULTS) / f"{name}.json"
    if not path.exists():
        raise MissingRecordError(
            f"docs/performance.md needs the record {name}.json in benchmarks/results; there is none. "
            f"Run `{COMMANDS[name][0]}` (benchmarks/{COMMANDS[name][1]})."
        )
    return Record.load(path)


def where(record: Record) -> str:
    """The device a record was made on."""
    machine = record.machine
    on_gpu = record.settings.get("device") == "cuda" or "device" not in record.settings
    if "gpu" in machine and on_gpu:
        return str(machine["gpu"])
    return f"{machine['cpu']}, {machine['threads']} threads"


def ratio(above: Spread, below: Spread) -> Spread:
    """Of two times: of their medians, and as far as their quartiles allow it to be off."""
    return {
        "median": above["median"] / below["median"],
        "q25": above["q25"] / below["q75"],
        "q75": above["q75"] / below["q25"],
    }


def exactly(value: float) -> Spread:
    """A number that was measured once."""
    return {"median": value, "q25": value, "q75": value}


def only(entries: Iterable[Mapping[str, Any]], **asked: object) -> Spread:
    """Seconds of the one entry that has all that is asked for."""
    listed = list(entries)
    found = [one for one in listed if all(one.get(name) == value for name, value in asked.items())]
    if len(found) != 1:
        raise SquadError(f"the record must have one entry with {asked}; it has {len(found)} among {len(listed)}.")
    seconds: Spread = found[0]["seconds"]
    return seconds


@dataclass(frozen=True)
class Claim:
    """One line of the table of claims.

    Attributes:
        text: what is claimed, without its number.
        record: where it is measured.
        limit: the number.
        at_most: whether less is better.
        reached: what the record says.
        unit, scale: how it is shown: a multiple by default.
    """

    text: str
    record: str
    limit: float
    at_most: bool
    reached: Callable[[Record], Spread]
    unit: str = "times"
    scale: float = 1.0

    def met(self, reached: Spread) -> bool:
        """By the median."""
        return reached["median"] <= self.limit if self.at_most else reached["median"] >= self.limit

    def line(self, results: Path | None) -> list[str]:
        """Its row of the table."""
        command, script = COMMANDS[self.record]
        claimed = f"{self.text}: at {'most' if self.at_most else 'least'} {self._shown(self.limit)} {self.unit}"
        link = f"[{script}]({SCRIPTS}/{script})"
        try:
            record = read(self.record, results)
        except MissingRecordError:
            return [claimed, f"not measured: `{command}`", "", "", "", "**not measured**", link]
        reached = self.reached(record)
        low, high = reached["q25"], reached["q75"]
        return [
            claimed,
            f"{self._shown(reached['median'])} {self.unit}",
            "one run" if low == high else f"{self._shown(low)} to {self._shown(high)}",
            where(record),
            record.date[:10],
            "yes" if self.met(reached) else "**no**",
            link,
        ]

    def _shown(self, value: float) -> str:
        return number(value * self.scale)


def number(value: float) -> str:
    """Three digits, as people write them."""
    return f"{float(f'{value:.3g}'):,.10g}"


#: The size at which the operation is judged.
BIG: dict[str, Any] = {"N": 8192, "C": 37, "K": 256, "dtype": "float32"}


def _op(record: Record, backend: str) -> Spread:
    return only(record.results["sizes"], backend=backend, **BIG)


def _seconds(record: Record, what: str, members: int = 1) -> Spread:
    """Of a line of predict_samples: "relaxed 32", "32 passes of relaxed", "floor of relaxed 32"."""
    seconds: Spread = record.results[str(members)]["seconds"][what]
    return seconds


def _grows(sampling: str, members: int = 1) -> Callable[[Record], Spread]:
    return lambda record: ratio(_seconds(record, f"{sampling} 32", members), _seconds(record, f"{sampling} 1", members))


def _saved(sampling: str) -> Callable[[Record], Spread]:
    return lambda record: ratio(_seconds(record, f"32 passes of {sampling}"), _seconds(record, f"{sampling} 32"))


def _step(record: Record, members: int) -> Spread:
    seconds: Spread = record.results["members"][str(members)]["seconds"]
    return seconds


def _between(above: str, below: str) -> Callable[[Record], Spread]:
    """Of two of a record's ``seconds``."""
    return lambda record: ratio(record.results["seconds"][above], record.results["seconds"][below])


def _epochs(precision: str) -> Callable[[Record], Spread]:
    def of(record: Record) -> Spread:
        seconds = record.results[precision]["seconds"]
        return ratio(seconds["squad-factorized"], seconds["maxout-dropout"])

    return of


#: Every number that the work on speed set out to reach.
CLAIMS = [
    Claim(
        "Sampling + KL of N = 8192, K = 256, C = 37 in float32, forward and backward, against the memory floor",
        "op_gpu",
        2,
        True,
        lambda record: ratio(_op(record, "triton"), exactly(record.results["floor_seconds"])),
    ),
    Claim(
        "The same, faster than the plain reference",
        "op_gpu",
        12,
        False,
        lambda record: ratio(_op(record, "reference"), _op(record, "triton")),
    ),
    Claim(
        "The same, faster than `torch.compile` of it",
        "op_gpu",
        4,
        False,
        lambda record: ratio(_op(record, "compile"), _op(record, "triton")),
    ),
    Claim("The same of a factorized layer", "op_gpu", 5e-4, True, lambda record: _op(record, "factorized"), "ms", 1e3),
    Claim(
        "Sampling + KL on two cores (N = 244, K = 32, C = 15), faster than plain torch over [N, K, C]",
        "op_cpu",
        3,
        False,
        _between("plain [N, K, C]", "eager"),
    ),
    Claim(
        "Training step of 784-32-32-10, batch 244, on two cores, against its matrix products",
        "step_cpu",
        2.5,
        True,
        _between("step", "matrix products"),
    ),
    Claim(
        "Training step of ten members on a GPU", "step_gpu", 150e-6, True, lambda record: _step(record, 10), "µs", 1e6
    ),
    Claim("Ten members against one", "step_gpu", 1.5, True, lambda record: ratio(_step(record, 10), _step(record, 1))),
    Claim(
        "Ten seeds of Fashion-MNIST SQUAD, to early stop, kernels being compiled already",
        "fashion_mnist-cuda",
        10,
        True,
        lambda record: exactly(record.results["train_seconds"]),
        "s",
    ),
    Claim(
        "The same as the first run on a machine, which compiles them",
        "fashion_mnist-cuda",
        10,
        True,
        lambda record: exactly(record.results["first_train_seconds"]),
        "s",
    ),
    *(
        Claim(
            f"Epoch of SQUAD-factorized at SVHN's sizes against Maxout MC-dropout's, products in {words}",
            "svhn_epoch-cuda",
            0.69,
            True,
            _epochs(precision),
        )
        for precision, words in (("tf32", "TF32, the default"), ("float32", "float32, as the paper's were"))
    ),
    *(
        Claim(
            f"T = 32 {sampling} samples {place} against T = 1",
            f"predict_samples-{device}",
            limit,
            True,
            _grows(sampling, members),
        )
        for place, device, members, limit in (
            ("of ten networks on a GPU", "cuda", 10, 4),
            ("of one network on a GPU", "cuda", 1, 4),
            ("on two cores", "cpu", 1, 8),
        )
        for sampling in ("relaxed", "stratified")
    ),
    *(
        Claim(f"T = 32 {one} samples on two cores, faster than 32 passes", "predict_samples-cpu", 4, False, _saved(one))
        for one in ("relaxed", "stratified")
    ),
]


def table(lines: list[list[str]]) -> str:
    """Rows, the first of which are headings, as Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]])


def claims(results: Path | None = None) -> str:
    """Every claim, with what was reached."""
    lines = [claim.line(results) for claim in CLAIMS]
    count = sum(line[5] == "yes" for line in lines)
    missing = sum(line[5] == "**not measured**" for line in lines)
    heads = ["claim", "reached", "quartiles", "device", "date", "met", "measured by"]
    summary = f"{count} of {len(lines)} met" + (f", {missing} not measured yet" if missing else "") + "."
    return f"{summary}\n\n{table([heads, *lines])}"


def others(results: Path | None = None) -> str:
    """The side by side table."""
    record = read("side_by_side", results)
    heads = ["network", "who", "how", "networks", "T", "ms (quartiles)", "of its own single pass", "MiB"]
    lines = []
    for one in sorted(record.results, key=lambda one: (one["members"] > 1, one["network"])):
        low, middle, high = (number(1e3 * one["seconds"][name]) for name in ("q25", "median", "q75"))
        lines.append(
            [
                *(one["network"], one["who"], one["how"], str(one["members"]), str(one["samples"])),
                f"{middle} ({low} to {high})",
                f"{one['passes']['median']:.1f}",
                "" if one["bytes"] is None else f"{one['bytes'] / 2**20:.0f}",
            ]
        )
    versions = ", ".join(f"{name} {record.versions[name]}" for name in ("torch", "torch-uncertainty"))
    note = f"{record.settings['rows']:,} rows, {where(record)}, {record.date[:10]}, {versions}."
    return f"{note}\n\n{table([heads, *lines])}"


def advice(results: Path | None = None) -> str:
    """Which T to take: of the ways that rank as well as the best, the quickest.

    "As well" is within one standard deviation between networks: less than another seed would change.
    """
    quality = {_way(way): way["each"]["aurc"] for way in read("fashion_mnist-cuda", results).results["ways"]}
    best = min(quality, key=lambda way: quality[way]["mean"])
    margin = quality[best]["std"]
    good = [way for way, aurc in quality.items() if aurc["mean"] <= quality[best]["mean"] + margin]
    lines = []
    for device, place in (("cpu", "two CPU cores"), ("cuda", "a GPU")):
        times = {_way(way): way["seconds"] for way in read(f"fashion_mnist-{device}", results).results["ways"]}
        sampling, samples = quick = min(good, key=lambda way: times[way]["median"])
        more = times[best]["median"] / times[quick]["median"]
        lines.append(
            f"- **On {place} take `{sampling}` with T = {samples}**: AURC x 1000 of {_mean(quality[quick])}; "
            f"the best, `{best[0]}` with T = {best[1]}, has {_mean(quality[best])} and takes {more:.1f} times as long."
        )
    return "\n".join(lines)


def _way(way: Mapping[str, Any]) -> tuple[str, int]:
    return way["sampling"], way["samples"]


def _mean(found: Mapping[str, float]) -> str:
    return f"{1000 * found['mean']:.2f} ± {1000 * found['std']:.2f}"


#: The parts of the page between its markers.
PARTS: dict[str, Callable[[], str]] = {"claims": claims, "others": others, "advice": advice}


def plain_numbers(axis: Any, subs: tuple[float, ...] = (1.0, 2.0, 5.0)) -> None:
    """A logarithmic axis with numbers as people write them."""
    axis.set_major_locator(LogLocator(10, subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_locator(NullLocator())


def _tidy(axis: Axes) -> None:
    axis.grid(color="#e6e6e6", linewidth=0.8)
    axis.spines[["top", "right"]].set_visible(False)


def _times(axis: Axes, x: list[float], seconds: list[Spread], unit: float, **look: Any) -> None:
    """Medians as a line, quartiles as bars."""
    (line,) = axis.plot(x, [unit * one["median"] for one in seconds], **{"markersize": 4.5, "linewidth": 1.4, **look})
    low, high = ([unit * one[name] for one in seconds] for name in ("q25", "q75"))
    axis.vlines(x, low, high, color=line.get_color(), alpha=0.5)


def _finish(figure: Figure, name: str) -> None:
    """One legend below for all axes, as lines leave no room inside; then save."""
    labels: dict[str, Any] = {}
    for axis in figure.axes:
        labels |= {str(line.get_label()): line for line in axis.get_lines()}
    columns = 4 if len(labels) <= 4 else 3
    figure.legend(labels.values(), labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    figure.savefig(IMAGES / f"{name}.png", dpi=140)
    plt.close(figure)


def _logarithmic(axis: Axes, ticks: Iterable[float]) -> None:
    axis.set(xscale="log", yscale="log")
    shown = list(ticks)
    axis.set_xticks(shown, [f"{tick:g}" for tick in shown])
    axis.xaxis.set_minor_locator(NullLocator())
    plain_numbers(axis.yaxis)
    _tidy(axis)


def draw_quality() -> None:
    """AURC and coverage against T, against time on two cores and on a GPU, a line a way to sample."""
    gpu, cpu = (read(f"fashion_mnist-{device}").results["ways"] for device in ("cuda", "cpu"))
    on_cpu = {_way(way): 1e3 * way["seconds"]["median"] for way in cpu}
    members = read("fashion_mnist-cuda").settings["members"]
    figure, axes = plt.subplots(2, 3, figsize=(8, 5.4), sharey="row", layout="constrained")
    for sampling, (color, marker) in SAMPLINGS.items():
        found = [way for way in gpu if way["sampling"] == sampling]
        across = [
            [way["samples"] for way in found],
            [on_cpu[_way(way)] for way in found],
            [1e3 * way["seconds"]["median"] / members for way in found],
        ]
        for row, (name, unit) in zip(axes, (("aurc", 1000), ("coverage@0.01", 100)), strict=True):
            for axis, x in zip(row, across, strict=True):
                y = [unit * way["each"][name]["mean"] for way in found]
                axis.plot(x, y, color=color, marker=marker, markersize=4.5, linewidth=1.4, label=sampling)
    for row in axes:
        for axis, label in zip(row, ("T, samples", "ms on two CPU cores", "ms on a GPU"), strict=True):
            axis.set(xscale="log", xlabel=label)
            plain_numbers(axis.xaxis, (1.0, 3.0))  # more would touch
            _tidy(axis)
        ticks = [1, 2, 4, 8, 16, 32, 64]
        row[0].set_xticks(ticks, [str(tick) for tick in ticks])
    axes[0, 0].set_ylabel("AURC x 1000, less is better")
    axes[1, 0].set_ylabel("coverage at 1 % errors, %")
    figure.suptitle(f"Fashion-MNIST, means of {members} networks; times of one network and 10,000 rows", fontsize=10)
    _finish(figure, "performance-quality")


def draw_bins() -> None:
    """Time of the operation against C, on both devices, with the floors."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    record = read("op_bins-cpu")
    for backend, found in record.results.items():
        look = FLOOR if backend == "floor" else {"color": BACKENDS[backend], "marker": "o"}
        label = "floor: reads twice, writes once" if backend == "floor" else backend
        _times(left, found["bins"], found["seconds"], 1e3, label=label, **look)
    _logarithmic(left, found["bins"])
    left.set_title(f"N = {record.settings['N']:,}, K = {record.settings['K']}: {where(record)}", fontsize=9)
    record = read("op_gpu")
    sizes = [one for one in record.results["sizes"] if all(one[name] == BIG[name] for name in ("N", "K", "dtype"))]
    bins = sorted({one["C"] for one in sizes})
    for backend in dict.fromkeys(one["backend"] for one in sizes):
        own = sorted((one for one in sizes if one["backend"] == backend), key=lambda one: one["C"])
        x, seconds = [one["C"] for one in own], [one["seconds"] for one in own]
        _times(right, x, seconds, 1e3, label=backend, color=BACKENDS[backend], marker="o")
    floor = [1e3 * record.results["floor_seconds"] * c / BIG["C"] for c in bins]
    right.plot(bins, floor, label="floor: reads twice, writes once", **FLOOR)
    _logarithmic(right, bins)
    right.set_title(f"N = {BIG['N']:,}, K = {BIG['K']}: {where(record)}", fontsize=9)
    for axis in (left, right):
        axis.set(xlabel="C, bins", ylabel="ms, forward + backward")
    _finish(figure, "performance-bins")


def draw_neurons() -> None:
    """Time of the operation against K on a GPU, a line a backend, with the floor."""
    record = read("op_gpu")
    sizes = [one for one in record.results["sizes"] if all(one[name] == BIG[name] for name in ("N", "C", "dtype"))]
    figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
    widths = sorted({one["K"] for one in sizes})
    for backend in dict.fromkeys(one["backend"] for one in sizes):
        found = sorted((one for one in sizes if one["backend"] == backend), key=lambda one: one["K"])
        x, seconds = [one["K"] for one in found], [one["seconds"] for one in found]
        _times(axis, x, seconds, 1e3, label=backend, color=BACKENDS[backend], marker="o")
    # Memory traffic is linear in K, and the floor was measured at BIG.
    floor = [1e3 * record.results["floor_seconds"] * k / BIG["K"] for k in widths]
    axis.plot(widths, floor, label="floor: reads twice, writes once", **FLOOR)
    _logarithmic(axis, widths)
    axis.set(xlabel="K, latents of a layer", ylabel="ms, forward + backward")
    axis.set_title(f"N = {BIG['N']:,}, C = {BIG['C']}, float32: {where(record)}", fontsize=9)
    _finish(figure, "performance-neurons")


def draw_members() -> None:
    """Time of a training step against the number of members, with the floor if the record has one."""
    record = read("step_gpu")
    found = sorted((int(members), one) for members, one in record.results["members"].items())
    figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
    x = [float(members) for members, _ in found]
    _times(
        axis, x, [one["seconds"] for _, one in found], 1e6, label="training step", color=BACKENDS["eager"], marker="o"
    )
    floor = [1e6 * one["floor_seconds"] for _, one in found if "floor_seconds" in one]
    if floor:
        axis.plot(x, floor, label="floor: its arithmetic and memory traffic", **FLOOR)
    _logarithmic(axis, x)
    axis.set(xlabel="members", ylabel="µs a step")
    axis.set_title(f"784-32-32-10, batch 244: {where(record)}", fontsize=9)
    _finish(figure, "performance-members")


def draw_samples() -> None:
    """Time of a prediction against T on both devices, a line a way to sample, with the floor if the record has one."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    for axis, device in zip(axes, ("cpu", "cuda"), strict=True):
        record = read(f"predict_samples-{device}")
        members = 1 if device == "cpu" else 10
        lines = {
            sampling: {
                int(name.rpartition(" ")[2]): seconds
                for name, seconds in record.results[str(members)]["seconds"].items()
                if name.rpartition(" ")[0] == sampling
            }
            for sampling in ("stratified", "relaxed", "hard")
        }
        for sampling, found in lines.items():
            color, marker = SAMPLINGS[sampling]
            _times(axis, list(found), list(found.values()), 1e3, label=sampling, color=color, marker=marker)
        if device == "cpu":
            ends = [1, 32]
            floor = [1e3 * _seconds(record, f"floor of relaxed {t}")["median"] for t in ends]
            axis.plot(ends, floor, label="floor of relaxed samples", **FLOOR)
        _logarithmic(axis, sorted(lines["relaxed"]))
        axis.set(xlabel="T, samples", ylabel="ms")
        networks = "one network" if members == 1 else f"{members} networks"
        axis.set_title(f"{networks}, {record.settings['rows']:,} rows: {where(record)}", fontsize=9)
    _finish(figure, "performance-samples")


#: By the name of the file in docs/images.
PICTURES: dict[str, Callable[[], None]] = {
    "performance-quality": draw_quality,
    "performance-bins": draw_bins,
    "performance-neurons": draw_neurons,
    "performance-members": draw_members,
    "performance-samples": draw_samples,
}


def pictures() -> None:
    """Draw all that can be drawn; then say what could not, and what to run."""
    missing = []
    for draw in PICTURES.values():
        try:
            draw()
        except MissingRecordError as error:
            missing.append(str(error))
    if missing:
        raise MissingRecordError("\n".join(missing))
