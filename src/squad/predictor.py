"""What is loaded, asked and saved: a network with its input transformation, classes, sampling and seeds."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from squad import artifact
from squad.artifact import ArtifactError
from squad.data.array_transform import ArrayTransform
from squad.data.tables import Table
from squad.data.transforms import TableTransform, from_json
from squad.errors import ArgumentError, SquadError
from squad.layers import stack
from squad.models import Network, NetworkConfig, Sampler, network_config, restore

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Answer", "Predictor", "choose_device", "load"]

#: Rows that are transformed at once: memory stays bounded however many there are.
CHUNK = 8192

#: The kinds of class names that JSON keeps as they are.
Label = str | int | float | bool


@dataclass(frozen=True, eq=False)
class Answer:
    """What a predictor says about N rows.

    Attributes:
        label: (N,), the most likely class; None for a row that could not be read.
        confidence: (N,), its probability (the softmax response), float64; NaN for a row that could not be read.
        decision: (N,), "accepted", "referred", or "uncertified" where there is no certificate.
        entropy: (N,), of the class probabilities, in nats.
        mutual_information: (N,), between the class and which sample (and member) is asked, in nats: how much of the
            entropy comes from samples that disagree.
        probabilities: (N, classes).
        reason: (N,), why a row could not be read; empty otherwise.
    """

    label: NDArray[Any]
    confidence: NDArray[np.float64]
    decision: NDArray[Any]
    entropy: NDArray[np.float64]
    mutual_information: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    reason: NDArray[Any]

    def __len__(self) -> int:
        return len(self.label)

    def to_frame(self) -> "pd.DataFrame":
        """As a pandas data frame, one column for each of the above but the probabilities."""
        import pandas as pd

        names = ("label", "confidence", "decision", "entropy", "mutual_information", "reason")
        return pd.DataFrame({name: getattr(self, name) for name in names})


class Predictor:
    """A trained network that can be asked.

    Made by ``squad.SquadClassifier``, ``squad fit`` and :func:`squad.load`.

    Attributes:
        network: with members, in eval mode.
        config: its settings.
        transform: what turns rows into the network's input.
        classes: the names of the classes, in the order of the probabilities.
        sampling, num_samples: how it is sampled.
        record: how it was made: plain data.
    """

    def __init__(
        self,
        network: Network,
        config: NetworkConfig,
        transform: TableTransform | ArrayTransform,
        classes: Sequence[Label],
        *,
        sampling: str | None = None,
        num_samples: int | None = None,
        record: Mapping[str, Any] | None = None,
    ) -> None:
        _check_classes(classes, network.classes)
        if transform.features != network.in_features:
            raise ArgumentError.of(
                "transform", f"{transform.features} features", f"one that gives {network.in_features}"
            )
        config.check_members(network.members or 1)
        self.network = (network if network.members is not None else stack([network])).eval()
        self.config = config
        self.transform = transform
        self.classes = tuple(classes)
        self._sampling, self._num_samples = config.check_sampling(sampling, num_samples)
        self.record = dict(record or {})
        self._sampler: Sampler | None = None

    @property
    def sampling(self) -> str:
        """How it is sampled; :meth:`with_sampling` gives another predictor."""
        return self._sampling

    @property
    def num_samples(self) -> int:
        """How many samples a member takes."""
        return self._num_samples

    @property
    def members(self) -> int:
        """How many networks answer together."""
        return self.network.members or 1

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.network.parameters()).device

    def __repr__(self) -> str:
        sizes = " - ".join(map(str, (self.network.in_features, *self.config.hidden, len(self.classes))))
        many = f", {self.members} members" if self.members > 1 else ""
        return f"Predictor({self.config.name} {sizes}{many}, {self.num_samples} {self.sampling} samples)"

    def __getstate__(self) -> dict[str, Any]:
        # What was made ready for asking is made anew; and a copy must open where there is no GPU.
        return {**vars(self), "_sampler": None, "network": copy.deepcopy(self.network).cpu()}

    def to(self, device: torch.device | str) -> "Predictor":
        """Compute on another device from now on; returns itself.

        Predictors that share its weights (:meth:`with_sampling`) move along.
        """
        self.network.to(choose_device(device))
        return self

    def with_sampling(self, sampling: str | None = None, num_samples: int | None = None) -> "Predictor":
        """The same network, sampled in another way; weights are shared."""
        return Predictor(
            self.network,
            self.config,
            self.transform,
            self.classes,
            sampling=self.sampling if sampling is None else sampling,
            num_samples=self.num_samples if num_samples is None else num_samples,
            record=self.record,
        )

    def answer(self, x: Any) -> Answer:
        """Class probabilities with their confidence, entropy and mutual information, row by row.

        An answer is a function of its row: it does not depend on what else is in ``x``.

        Args:
            x: for a model of a table, a data frame (or a table that was read) with the columns of training in any
                order; otherwise an array (N, ...) like the one that was trained on.
        """
        rows = self._checked(x)
        count = len(rows)
        p = np.empty((count, len(self.classes)))
        inner = np.empty(count)
        problems: dict[int, str] = {}
        sampler = self._ready()
        for start in range(0, count, CHUNK):
            end = start + CHUNK
            encoded = self.transform.apply(rows[start:end])
            drawn = sampler(torch.from_numpy(encoded.x))
            p[start:end] = _mean(drawn.probabilities).cpu().numpy()
            inner[start:end] = _mean(drawn.entropy).cpu().numpy()
            problems.update({start + row: reason for row, reason in encoded.problems.items()})
        for row in np.flatnonzero(~np.isfinite(p).all(1) | ~np.isfinite(inner)).tolist():
            problems.setdefault(row, "x is so far from the rows of training that the network gives no number for it")
        entropy = -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), 1)
        if self.members * sampler.num_samples == 1:
            inner = entropy  # nobody to disagree with: exactly 0, without the rounding of two sums
        # Rounding could leave either a hair below zero.
        return self._labelled(p, np.maximum(entropy, 0), np.maximum(entropy - inner, 0), problems)

    def _checked(self, x: Any) -> Any:
        """``x`` as the transform takes it: something with rows to slice."""
        if isinstance(self.transform, ArrayTransform):
            if isinstance(x, Table):
                raise ArgumentError.of(
                    "x", "a table", f"an array of shape {self.transform.shape} a row, as in training"
                )
            if not isinstance(x, (np.ndarray, torch.Tensor)):
                try:
                    x = np.asarray(x)
                except (TypeError, ValueError) as cause:
                    reason = str(cause).splitlines()[0]
                    raise ArgumentError.of("x", type(x).__name__, "an array of numbers", reason) from cause
            if tuple(x.shape[1:]) != self.transform.shape:
                self.transform.apply(x)  # says what is wrong, even if there are no rows
            return x
        if not isinstance(x, Table):
            import pandas as pd

            if not isinstance(x, pd.DataFrame):
                hint = "This model was trained on a table: pandas.DataFrame(x, columns=[...]) names them."
                raise ArgumentError.of("x", type(x).__name__, "a pandas.DataFrame with the columns of training", hint)
            x = Table.of(x)
        self.transform.apply(x[:0])
        return x

    def _ready(self) -> Sampler:
        sampler = self._sampler
        if sampler is None or sampler.device != self.device:
            sampler = self._sampler = Sampler(self.network, self.sampling, self.num_samples)
        return sampler

    def _labelled(
        self,
        p: NDArray[np.float64],
        entropy: NDArray[np.float64],
        mutual: NDArray[np.float64],
        problems: Mapping[int, str],
    ) -> Answer:
        names = np.array(self.classes)
        label: NDArray[Any] = names[p.argmax(1)]
        confidence = p.max(1)
        decision = np.full(len(p), "uncertified", dtype=object)
        reason = np.full(len(p), "", dtype=object)
        if problems:
            rows = list(problems)
            label = label.astype(object)
            label[rows] = None
            decision[rows] = "referred"
            reason[rows] = list(problems.values())
            for numbers in (p, entropy, mutual, confidence):
                numbers[rows] = np.nan
        return Answer(label, confidence, decision, entropy, mutual, p, reason)

    def positions(self, labels: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64]:
        """Where each label stands among the classes; one that is not among them is an error."""
        places = {name: place for place, name in enumerate(self.classes)}
        texts = {str(name): place for name, place in places.items()}
        amounts = {_number(name): place for name, place in places.items()}
        if np.ndim(labels) != 1:
            raise ArgumentError.of("labels", f"shape {np.shape(labels)}", "a list of one label a row")
        values = labels.tolist() if hasattr(labels, "tolist") else list(labels)
        # As it is, as text, and last as a number: 5, 5.0 and "5.0" are one class to a reader.
        found = [places.get(value, texts.get(str(value), amounts.get(_number(value), -1))) for value in values]
        unknown = sorted({str(value) for value, place in zip(values, found, strict=True) if place < 0})
        if unknown:
            known = ", ".join(map(str, self.classes[:8])) + (", ..." if len(self.classes) > 8 else "")
            raise ArgumentError.of("labels", ", ".join(unknown[:5]), f"among the classes of training ({known})")
        return np.array(found, dtype=np.int64)

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the folder ``path`` with model.safetensors and config.json, whole or not at all."""
        config = {
            "network": {"name": self.config.name, **self.config.to_dict()},
            "members": self.members,
            "in_features": self.network.in_features,
            "classes": list(self.classes),
            "transform": self.transform.to_json(),
            "prediction": {"sampling": self.sampling, "num_samples": self.num_samples},
            "record": self.record,
        }
        return artifact.save(path, self.network.state_dict(), config, overwrite)

    @classmethod
    def load(cls, path: str | Path, device: torch.device | str = "cpu") -> "Predictor":
        """Read a folder that :meth:`save` wrote."""
        device = choose_device(device)
        tensors, saved = artifact.load(path)
        try:
            settings = dict(_entry(saved, "network", dict))
            config = network_config(_entry(settings, "name", str), {k: v for k, v in settings.items() if k != "name"})
            classes = _entry(saved, "classes", list)
            in_features, members = (_entry(saved, name, int) for name in ("in_features", "members"))
            prediction = _entry(saved, "prediction", dict)
            made = cls(
                restore(config, in_features, len(classes), members, tensors),
                config,
                from_json(_entry(saved, "transform", dict)),
                classes,
                sampling=_entry(prediction, "sampling", str),
                num_samples=_entry(prediction, "num_samples", int),
                record=_entry(saved, "record", dict),
            )
        except (SquadError, ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as cause:
            raise ArtifactError(f"{path} does not describe a model that can be built: {str(cause)[:400]}") from cause
        return made.to(device)


def _number(label: Any) -> float:
    """A label as a number, NaN (which equals nothing) if it is none."""
    try:
        return float("nan") if isinstance(label, bool) else float(label)
    except (TypeError, ValueError):
        return float("nan")


def _mean(drawn: torch.Tensor) -> torch.Tensor:
    """Over members (M, ...), added one by one: a reduction would add in an order that depends on the number of rows."""
    total = drawn[0]
    for member in drawn[1:]:
        total = total + member
    return total / len(drawn)


def load(path: str | Path, device: torch.device | str = "cpu") -> Predictor:
    """A saved model, ready to answer; nothing in the folder is run.

    Args:
        path: the folder that ``squad fit`` or ``Predictor.save`` wrote.
        device: where to compute.
    """
    return Predictor.load(path, device)


def choose_device(name: str | torch.device = "auto") -> torch.device:
    """The device called ``name``, if it is one that can be computed on; "auto" is a GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        # Not all devices have the float64 that answers are made in, and some ("meta") have no numbers at all.
        torch.zeros(1, dtype=torch.float64, device=device).item()
    except (RuntimeError, AssertionError, TypeError, ImportError) as cause:
        reason = str(cause).splitlines()[0]
        raise ArgumentError.of("device", repr(name), "'auto', 'cpu' or a GPU of this machine", reason) from cause
    return device


def _check_classes(classes: Sequence[object], count: int) -> None:
    """Names that files keep, one for each class."""
    if len(classes) != count:
        raise ArgumentError.of("classes", f"{len(classes)} names", f"one for each of {count} classes")
    for name in classes:
        if not isinstance(name, str | int | float | bool) or (isinstance(name, float) and not math.isfinite(name)):
            raise ArgumentError.of("classes", repr(name)[:80], "texts, numbers or booleans")
    if len({isinstance(name, str) for name in classes}) > 1 or len(set(classes)) < count:
        raise ArgumentError.of("classes", repr(list(classes))[:80], "all texts or all numbers, each once")


_WORDS = {dict: "an object", list: "a list", str: "text", int: "a whole number"}


def _entry(data: Mapping[str, Any], name: str, kind: type) -> Any:
    """One entry of config.json, of its type."""
    if name not in data:
        raise ArgumentError(f"{name!r} is missing.")
    if type(data[name]) is not kind:
        raise ArgumentError.of(repr(name), repr(data[name])[:60], _WORDS[kind])
    return data[name]
