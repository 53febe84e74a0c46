"""The table of claims.

Whether a claim is met is computed here from its record, never typed; one whose record is missing stays on the page as
"not measured".
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from docs.performance.markdown import number, table
from docs.performance.records import BIG, COMMANDS, MissingRecordError, Spread, exactly, only, ratio, read, where
from squad.records import Record

#: Where the links of the page lead.
SCRIPTS = "../benchmarks"


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


def _op(record: Record, backend: str) -> Spread:
    return only(record.results["sizes"], backend=backend, **BIG)


def _seconds(record: Record, what: str, members: int = 1) -> Spread:
    """Of a line of predict_samples: "relaxed 32", "32 passes of relaxed", "floor of relaxed 32"."""
    seconds: Spread = record.results[str(members)]["seconds"][what]
    return seconds


def _grows(sampling: str, members: int = 1) -> Callable[[Record], Spread]:
    def of(record: Record) -> Spread:
        many, one = (_seconds(record, f"{sampling} {samples}", members) for samples in (32, 1))
        return ratio(many, one)

    return of


def _saved(sampling: str) -> Callable[[Record], Spread]:
    def of(record: Record) -> Spread:
        return ratio(*(_seconds(record, what) for what in (f"32 passes of {sampling}", f"{sampling} 32")))

    return of


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


def claims_table(results: Path | None = None) -> str:
    """Every claim, with what was reached."""
    lines = [claim.line(results) for claim in CLAIMS]
    count = sum(line[5] == "yes" for line in lines)
    missing = sum(line[5] == "**not measured**" for line in lines)
    heads = ["claim", "reached", "quartiles", "device", "date", "met", "measured by"]
    summary = f"{count} of {len(lines)} met" + (f", {missing} not measured yet" if missing else "") + "."
    return f"{summary}\n\n{table([heads, *lines])}"
