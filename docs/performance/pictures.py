"""The pictures of the page; one whose record is missing is an error that names the command."""

from collections.abc import Callable

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from docs.performance.drawing import BACKENDS, FLOOR, SAMPLINGS, finish, logarithmic, plain_numbers, tidy, times
from docs.performance.records import BIG, MissingRecordError, Spread, read, sampling_way, where
from squad.records import Record

#: The operation's floor, in the legend.
TRAFFIC = "floor: reads twice, writes once"


def draw_quality() -> None:
    """AURC and coverage against T, against time on two cores and on a GPU, a line a way to sample."""
    gpu, cpu = (read(f"fashion_mnist-{device}").results["ways"] for device in ("cuda", "cpu"))
    on_cpu = {sampling_way(way): 1e3 * way["seconds"]["median"] for way in cpu}
    members = read("fashion_mnist-cuda").settings["members"]
    figure, axes = plt.subplots(2, 3, figsize=(8, 5.4), sharey="row", layout="constrained")
    for sampling, (color, marker) in SAMPLINGS.items():
        found = [way for way in gpu if way["sampling"] == sampling]
        across = [
            [way["samples"] for way in found],
            [on_cpu[sampling_way(way)] for way in found],
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
            tidy(axis)
        ticks = [1, 2, 4, 8, 16, 32, 64]
        row[0].set_xticks(ticks, [str(tick) for tick in ticks])
    axes[0, 0].set_ylabel("AURC x 1000, less is better")
    axes[1, 0].set_ylabel("coverage at 1 % errors, %")
    figure.suptitle(f"Fashion-MNIST, means of {members} networks; times of one network and 10,000 rows", fontsize=10)
    finish(figure, "performance-quality")


def _operation(axis: Axes, record: Record, across: str) -> None:
    """Time of the operation on a GPU against C or K, the rest as in BIG: a line a backend, with the floor."""
    fixed = [name for name in BIG if name != across]
    sizes = [one for one in record.results["sizes"] if all(one[name] == BIG[name] for name in fixed)]
    ticks = sorted({one[across] for one in sizes})
    for backend in dict.fromkeys(one["backend"] for one in sizes):
        own = sorted((one for one in sizes if one["backend"] == backend), key=lambda one: one[across])
        x, seconds = [one[across] for one in own], [one["seconds"] for one in own]
        times(axis, x, seconds, 1e3, label=backend, color=BACKENDS[backend], marker="o")
    # Memory traffic is linear in C and in K, and the floor was measured at BIG.
    floor = [1e3 * record.results["floor_seconds"] * tick / BIG[across] for tick in ticks]
    axis.plot(ticks, floor, label=TRAFFIC, **FLOOR)
    logarithmic(axis, ticks)


def draw_bins() -> None:
    """Time of the operation against C, on both devices, with the floors."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    record = read("op_bins-cpu")
    for backend, found in record.results.items():
        look = FLOOR if backend == "floor" else {"color": BACKENDS[backend], "marker": "o"}
        label = TRAFFIC if backend == "floor" else backend
        times(left, found["bins"], found["seconds"], 1e3, label=label, **look)
    logarithmic(left, found["bins"])
    left.set_title(f"N = {record.settings['N']:,}, K = {record.settings['K']}: {where(record)}", fontsize=9)
    record = read("op_gpu")
    _operation(right, record, "C")
    right.set_title(f"N = {BIG['N']:,}, K = {BIG['K']}: {where(record)}", fontsize=9)
    for axis in (left, right):
        axis.set(xlabel="C, bins", ylabel="ms, forward + backward")
    finish(figure, "performance-bins")


def draw_neurons() -> None:
    """Time of the operation against K on a GPU, with the floor."""
    record = read("op_gpu")
    figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
    _operation(axis, record, "K")
    axis.set(xlabel="K, latents of a layer", ylabel="ms, forward + backward")
    axis.set_title(f"N = {BIG['N']:,}, C = {BIG['C']}, float32: {where(record)}", fontsize=9)
    finish(figure, "performance-neurons")


def draw_members() -> None:
    """Time of a training step against the number of members, with the floor."""
    record = read("step_gpu")
    found = sorted((int(members), one) for members, one in record.results["members"].items())
    figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
    x = [float(members) for members, _ in found]
    times(
        axis, x, [one["seconds"] for _, one in found], 1e6, label="training step", color=BACKENDS["eager"], marker="o"
    )
    floor = [1e6 * one["floor_seconds"] for _, one in found]
    axis.plot(x, floor, label="floor: its arithmetic and memory traffic", **FLOOR)
    logarithmic(axis, x)
    axis.set(xlabel="members", ylabel="µs a step")
    axis.set_title(f"784-32-32-10, batch 244: {where(record)}", fontsize=9)
    finish(figure, "performance-members")


def draw_samples() -> None:
    """Time of a prediction against T on both devices, with the floors."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    for axis, device, members in zip(axes, ("cpu", "cuda"), (1, 10), strict=True):
        plot_samples(axis, read(f"predict_samples-{device}"), members)
    finish(figure, "performance-samples")


def plot_samples(axis: Axes, record: Record, members: int) -> None:
    """Time of a prediction against T, a line a way to sample, with the floor unless launches bind it."""
    seconds = record.results[str(members)]["seconds"]

    def against(what: str) -> dict[int, Spread]:
        """Seconds by T of "relaxed 1", "relaxed 2", ..."""
        split = {name: name.rpartition(" ") for name in seconds}
        return {int(split[name][2]): spread for name, spread in seconds.items() if split[name][0] == what}

    for sampling in ("stratified", "relaxed", "hard"):
        color, marker = SAMPLINGS[sampling]
        found = against(sampling)
        times(axis, list(found), list(found.values()), 1e3, label=sampling, color=color, marker=marker)
    # Products that a host launches one by one, as in older records, are slower than a GPU could make them.
    if record.settings["device"] == "cpu" or record.settings.get("floor") == "graph":
        floor = {samples: 1e3 * spread["median"] for samples, spread in against("floor of relaxed").items()}
        axis.plot(list(floor), list(floor.values()), label="floor of relaxed samples, in torch", **FLOOR)
    logarithmic(axis, sorted(against("relaxed")))
    axis.set(xlabel="T, samples", ylabel="ms")
    networks = "one network" if members == 1 else f"{members} networks"
    axis.set_title(f"{networks}, {record.settings['rows']:,} rows: {where(record)}", fontsize=9)


#: By the name of the file in docs/images.
PICTURES: dict[str, Callable[[], None]] = {
    "performance-quality": draw_quality,
    "performance-bins": draw_bins,
    "performance-neurons": draw_neurons,
    "performance-members": draw_members,
    "performance-samples": draw_samples,
}


def draw_all() -> None:
    """Draw all that can be drawn; then say what could not, and what to run."""
    missing = []
    for draw in PICTURES.values():
        try:
            draw()
        except MissingRecordError as error:
            missing.append(str(error))
    if missing:
        raise MissingRecordError("\n".join(missing))
