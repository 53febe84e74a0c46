"""The table of performance targets.

Whether a target is met is computed from its record, never typed; a target without a record is listed as "not measured".
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from docs.performance.markdown import number, table
from docs.performance.records import (
    BIG,
    COMMANDS,
    MissingRecordError,
    Spread,
    exactly,
    only,
    ratio,
    read,
    where,
)
from squad.records import Record

#: Folder of the benchmark scripts, relative to the page.
SCRIPTS = "../../benchmarks"


@dataclass(frozen=True)
class Claim:
    """A performance target, one row of the table.

    Attributes:
        text: The quantity, without its limit.
        record: Name of the record in which it is measured.
        limit: The target.
        at_most: Whether the limit is an upper bound.
        reached: Computes the measured value from the record.
        unit, scale: Unit of the value, and the factor that converts the record's value to it.
    """

    text: str
    record: str
    limit: float
    at_most: bool
    reached: Callable[[Record], Spread]
    unit: str = "times"
    scale: float = 1.0

    def met(self, reached: Spread) -> bool:
        """Whether the median meets the target."""
        return reached["median"] <= self.limit if self.at_most else reached["median"] >= self.limit

    def line(self, results: Path | None) -> list[str]:
        """Return the row of the table."""
        command, script = COMMANDS[self.record]
        target = f"{self.text}: at {'most' if self.at_most else 'least'} {self._format(self.limit)} {self.unit}"
        link = f"[{script}]({SCRIPTS}/{script})"
        try:
            record = read(self.record, results)
        except MissingRecordError:
            return [target, f"not measured: `{command}`", "", "", "", "**not measured**", link]
        reached = self.reached(record)
        low, high = reached["q25"], reached["q75"]
        return [
            target,
            f"{self._format(reached['median'])} {self.unit}",
            "one run" if low == high else f"{self._format(low)} to {self._format(high)}",
            where(record),
            record.date[:10],
            "yes" if self.met(reached) else "**no**",
            link,
        ]

    def _format(self, value: float) -> str:
        return number(value * self.scale)


def _op(record: Record, backend: str) -> Spread:
    return only(record.results["sizes"], backend=backend, **BIG)


def _seconds(record: Record, name: str, members: int = 1) -> Spread:
    """Return the seconds of an entry of predict_samples, such as "relaxed 32" or "32 passes of relaxed"."""
    seconds: Spread = record.results[str(members)]["seconds"][name]
    return seconds


def _samples_ratio(sampling: str, members: int = 1) -> Callable[[Record], Spread]:
    """Time of T = 32 samples relative to one sample."""

    def compute(record: Record) -> Spread:
        many, one = (_seconds(record, f"{sampling} {samples}", members) for samples in (32, 1))
        return ratio(many, one)

    return compute


def _passes_ratio(sampling: str) -> Callable[[Record], Spread]:
    """Time of 32 separate passes relative to T = 32 samples."""

    def compute(record: Record) -> Spread:
        return ratio(*(_seconds(record, name) for name in (f"32 passes of {sampling}", f"{sampling} 32")))

    return compute


def _step(record: Record, members: int) -> Spread:
    seconds: Spread = record.results["members"][str(members)]["seconds"]
    return seconds


def _seconds_ratio(above: str, below: str) -> Callable[[Record], Spread]:
    """Ratio of two of a record's ``seconds``."""
    return lambda record: ratio(record.results["seconds"][above], record.results["seconds"][below])


def _epoch_ratio(precision: str) -> Callable[[Record], Spread]:
    """Time of an epoch of SQUAD-factorized relative to Maxout MC dropout."""

    def compute(record: Record) -> Spread:
        seconds = record.results[precision]["seconds"]
        return ratio(seconds["squad-factorized"], seconds["maxout-dropout"])

    return compute


#: All targets of the work on performance.
CLAIMS = [
    Claim(
        "Sampling + KL for N = 8192, K = 256, C = 37 in float32, forward and backward, relative to the memory floor",
        "op_gpu",
        2,
        True,
        lambda record: ratio(_op(record, "triton"), exactly(record.results["floor_seconds"])),
    ),
    Claim(
        "The same, speedup over the plain reference",
        "op_gpu",
        12,
        False,
        lambda record: ratio(_op(record, "reference"), _op(record, "triton")),
    ),
    Claim(
        "The same, speedup over `torch.compile` of the reference",
        "op_gpu",
        4,
        False,
        lambda record: ratio(_op(record, "compile"), _op(record, "triton")),
    ),
    Claim("The same for a factorized layer", "op_gpu", 5e-4, True, lambda record: _op(record, "factorized"), "ms", 1e3),
    Claim(
        "Sampling + KL on two cores (N = 244, K = 32, C = 15), speedup over plain torch with shape [N, K, C]",
        "op_cpu",
        3,
        False,
        _seconds_ratio("plain [N, K, C]", "eager"),
    ),
    Claim(
        "Training step of 784-32-32-10, batch 244, on two cores, relative to its matrix products",
        "step_cpu",
        2.5,
        True,
        _seconds_ratio("step", "matrix products"),
    ),
    Claim(
        "Training step of ten members on a GPU", "step_gpu", 150e-6, True, lambda record: _step(record, 10), "µs", 1e6
    ),
    Claim(
        "Ten members relative to one", "step_gpu", 1.5, True, lambda record: ratio(_step(record, 10), _step(record, 1))
    ),
    Claim(
        "Training SQUAD on Fashion-MNIST with ten seeds until early stopping, with compiled kernels",
        "fashion_mnist-cuda",
        10,
        True,
        lambda record: exactly(record.results["train_seconds"]),
        "s",
    ),
    Claim(
        "The same in the first run on a machine, including compilation",
        "fashion_mnist-cuda",
        10,
        True,
        lambda record: exactly(record.results["first_train_seconds"]),
        "s",
    ),
    *(
        Claim(
            f"Epoch of SQUAD-factorized at SVHN's sizes relative to Maxout MC dropout, matrix products in {words}",
            "svhn_epoch-cuda",
            0.69,
            True,
            _epoch_ratio(precision),
        )
        for precision, words in (("tf32", "TF32, the default"), ("float32", "float32, as in the paper"))
    ),
    *(
        Claim(
            f"T = 32 {sampling} samples {setting} relative to T = 1",
            f"predict_samples-{device}",
            limit,
            True,
            _samples_ratio(sampling, members),
        )
        for setting, device, members, limit in (
            ("of ten networks on a GPU", "cuda", 10, 4),
            ("of one network on a GPU", "cuda", 1, 4),
            ("on two cores", "cpu", 1, 8),
        )
        for sampling in ("relaxed", "stratified")
    ),
    *(
        Claim(
            f"T = 32 {sampling} samples on two cores, speedup over 32 passes",
            "predict_samples-cpu",
            4,
            False,
            _passes_ratio(sampling),
        )
        for sampling in ("relaxed", "stratified")
    ),
]


def claims_table(results: Path | None = None) -> str:
    """Return a table of all targets with the measured values."""
    lines = [claim.line(results) for claim in CLAIMS]
    count = sum(line[5] == "yes" for line in lines)
    missing = sum(line[5] == "**not measured**" for line in lines)
    heads = ["target", "measured", "quartiles", "device", "date", "met", "script"]
    summary = f"{count} of {len(lines)} targets met" + (f", {missing} not measured yet" if missing else "") + "."
    return f"{summary}\n\n{table([heads, *lines])}"
