"""Figures of docs/evidence/performance.md; a missing record is an error that names the command to run."""

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from docs.performance.drawing import (
    BACKENDS,
    COMPUTED,
    FLOOR,
    SAMPLINGS,
    finish,
    logarithmic,
    plain_numbers,
    single_time,
    tidy,
    times,
)
from docs.performance.records import BIG, MissingRecordError, Spread, read, sampling_key, where
from squad.records import Record

#: Label of the lower bound of the operation.
MEMORY_FLOOR_LABEL = "floor: logits read twice, gradient written once"
#: The times of these two are close, so their notes would touch: points by which they are moved up.
NOTES_UP = {"reference": 3.5, "eager": -3.5}


def draw_quality() -> None:
    """Plot AURC and coverage against T, and against time on two cores and on a GPU, one line per sampling mode."""
    gpu, cpu = (read(f"fashion_mnist-{device}").results["ways"] for device in ("cuda", "cpu"))
    cpu_times = {sampling_key(entry): 1e3 * entry["seconds"]["median"] for entry in cpu}
    members = read("fashion_mnist-cuda").settings["members"]
    figure, axes = plt.subplots(2, 3, figsize=(8, 5.4), sharey="row", layout="constrained")
    for sampling, (color, marker) in SAMPLINGS.items():
        entries = [entry for entry in gpu if entry["sampling"] == sampling]
        columns = [
            [entry["samples"] for entry in entries],
            [cpu_times[sampling_key(entry)] for entry in entries],
            [1e3 * entry["seconds"]["median"] / members for entry in entries],
        ]
        for row, (name, unit) in zip(axes, (("aurc", 1000), ("coverage@0.01", 100)), strict=True):
            for axis, x in zip(row, columns, strict=True):
                y = [unit * entry["each"][name]["mean"] for entry in entries]
                # The mean takes one pass without samples, so it is a point: no line, in the legend either.
                line = "none" if len(entries) == 1 else "-"
                label = f"{sampling} (no samples, one pass)" if sampling == "mean" else sampling
                look = {"color": color, "marker": marker, "linestyle": line, "label": label}
                axis.plot(x, y, markersize=4.5, linewidth=1.4, **look)
    for row in axes:
        for axis, label in zip(row, ("number of samples T", "ms on two CPU cores", "ms on a GPU"), strict=True):
            axis.set(xscale="log", xlabel=label)
            plain_numbers(axis.xaxis, (1.0, 3.0))  # more labels would overlap
            tidy(axis)
        ticks = [1, 2, 4, 8, 16, 32, 64]
        row[0].set_xticks(ticks, [str(tick) for tick in ticks])
    axes[0, 0].set_ylabel("AURC x 1000 (lower is better)")
    axes[1, 0].set_ylabel("coverage at 1 % risk, %")
    figure.suptitle(f"Fashion-MNIST, means over {members} networks; times of one network for 10,000 rows", fontsize=10)
    finish(figure, "performance-quality")


def _operation(axis: Axes, record: Record, variable: str) -> None:
    """Plot the time of the operation on a GPU against C or K, other sizes as in BIG: one line per backend, and a floor.

    Args:
        axis: Axes to plot into.
        record: The record op_gpu.
        variable: "C" or "K".
    """
    fixed = [name for name in BIG if name != variable]
    sizes = [one for one in record.results["sizes"] if all(one[name] == BIG[name] for name in fixed)]
    ticks = sorted({one[variable] for one in sizes})
    for backend in dict.fromkeys(one["backend"] for one in sizes):
        entries = sorted((one for one in sizes if one["backend"] == backend), key=lambda one: one[variable])
        x, seconds = [one[variable] for one in entries], [one["seconds"] for one in entries]
        if len(entries) == 1:
            note = f"{backend} (only {variable} = {x[0]})"
            single_time(axis, x[0], seconds[0], 1e3, note, BACKENDS[backend], NOTES_UP.get(backend, 0))
        else:
            times(axis, x, seconds, 1e3, label=backend, color=BACKENDS[backend], marker="o")
    # Memory traffic is linear in C and in K, and the floor was measured at BIG.
    floor = [1e3 * record.results["floor_seconds"] * tick / BIG[variable] for tick in ticks]
    axis.plot(ticks, floor, label=MEMORY_FLOOR_LABEL, **FLOOR)
    logarithmic(axis, ticks)


def draw_bins() -> None:
    """Plot the time of the operation against C, on both devices, with the floors."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    record = read("op_bins-cpu")
    for backend, measured in record.results.items():
        style = FLOOR if backend == "floor" else {"color": BACKENDS[backend], "marker": "o"}
        label = MEMORY_FLOOR_LABEL if backend == "floor" else backend
        times(left, measured["bins"], measured["seconds"], 1e3, label=label, **style)
    logarithmic(left, measured["bins"])
    left.set_title(f"N = {record.settings['N']:,}, K = {record.settings['K']}: {where(record)}", fontsize=9)
    record = read("op_gpu")
    _operation(right, record, "C")
    right.set_title(f"N = {BIG['N']:,}, K = {BIG['K']}: {where(record)}", fontsize=9)
    for axis in (left, right):
        axis.set(xlabel="number of bins C", ylabel="ms, forward + backward")
    finish(figure, "performance-bins")


def draw_neurons() -> None:
    """Plot the time of the operation against K on a GPU, with the floor."""
    record = read("op_gpu")
    figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
    _operation(axis, record, "K")
    axis.set(xlabel="latents per layer K", ylabel="ms, forward + backward")
    axis.set_title(f"N = {BIG['N']:,}, C = {BIG['C']}, float32: {where(record)}", fontsize=9)
    finish(figure, "performance-neurons")


def draw_members() -> None:
    """Plot the time of a training step against the number of members, with the floor."""
    record = read("step_gpu")
    figure, axis = plt.subplots(figsize=(6, 3.8), layout="constrained")
    plot_members(axis, record)
    finish(figure, "performance-members", columns=1)


def plot_members(axis: Axes, record: Record) -> None:
    """Plot the time of a training step against the number of members M.

    The line of M separate networks, trained one after the other, is M times the time of one network.
    """
    entries = sorted((int(members), one) for members, one in record.results["members"].items())
    x = [float(members) for members, _ in entries]
    one_network = 1e6 * record.results["members"]["1"]["seconds"]["median"]
    label = "M separate networks (computed: M x the time of one)"
    axis.plot(x, [members * one_network for members in x], label=label, **COMPUTED)
    seconds = [one["seconds"] for _, one in entries]
    times(axis, x, seconds, 1e6, label="M members trained together", color=BACKENDS["eager"], marker="o")
    floor = [1e6 * one["floor_seconds"] for _, one in entries]
    axis.plot(x, floor, label="floor of M members: arithmetic and memory traffic", **FLOOR)
    logarithmic(axis, x)
    axis.set(xlabel="number of members M", ylabel="µs per step")
    axis.set_title(f"784-32-32-10, batch 244: {where(record)}", fontsize=9)


def draw_samples() -> None:
    """Plot the time of a prediction against T on both devices, with the floors."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    for axis, device, members in zip(axes, ("cpu", "cuda"), (1, 10), strict=True):
        plot_samples(axis, read(f"predict_samples-{device}"), members)
    finish(figure, "performance-samples")


def plot_samples(axis: Axes, record: Record, members: int) -> None:
    """Plot the time of a prediction against T, one line per sampling mode.

    The floor is plotted unless it was measured with separate kernel launches, whose time would dominate it.
    """
    seconds = record.results[str(members)]["seconds"]

    def by_samples(prefix: str) -> dict[int, Spread]:
        """Seconds by T, from the entries "relaxed 1", "relaxed 2", ... for the prefix "relaxed"."""
        split = {name: name.rpartition(" ") for name in seconds}
        return {int(split[name][2]): spread for name, spread in seconds.items() if split[name][0] == prefix}

    for sampling in ("stratified", "relaxed", "hard"):
        color, marker = SAMPLINGS[sampling]
        measured = by_samples(sampling)
        times(axis, list(measured), list(measured.values()), 1e3, label=sampling, color=color, marker=marker)
    # Matrix products launched one by one, as in older records, are slower than the GPU allows.
    if record.settings["device"] == "cpu" or record.settings.get("floor") == "graph":
        floor = {samples: 1e3 * spread["median"] for samples, spread in by_samples("floor of relaxed").items()}
        axis.plot(list(floor), list(floor.values()), label="floor of relaxed samples, in torch", **FLOOR)
    logarithmic(axis, sorted(by_samples("relaxed")))
    axis.set(xlabel="number of samples T", ylabel="ms")
    networks = "one network" if members == 1 else f"{members} networks"
    axis.set_title(f"{networks}, {record.settings['rows']:,} rows: {where(record)}", fontsize=9)


#: Functions that draw the figures, by the name of the file in docs/images.
PICTURES: dict[str, Callable[[], None]] = {
    "performance-quality": draw_quality,
    "performance-bins": draw_bins,
    "performance-neurons": draw_neurons,
    "performance-members": draw_members,
    "performance-samples": draw_samples,
}


def draw_all() -> None:
    """Draw all figures whose records exist.

    Raises:
        MissingRecordError: For the others, with the commands to run.
    """
    missing = []
    for draw in PICTURES.values():
        try:
            draw()
        except MissingRecordError as error:
            missing.append(str(error))
    if missing:
        raise MissingRecordError("\n".join(missing))
