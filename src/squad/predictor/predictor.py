"""The predictor: a network with its input transformation, classes, sampling, seeds and certificate."""

import copy
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.data.array_transform import ArrayTransform
from squad.data.chance_repeats import NOTHING_KNOWN, with_more
from squad.data.column_names import listed
from squad.data.encoding import Encoded
from squad.data.novelty import RowDistance
from squad.data.seen_rows import SeenRows
from squad.data.tables import Table
from squad.data.transforms import TableTransform
from squad.errors import ArgumentError, DataError, SquadWarning
from squad.layers import stack
from squad.models import Network, NetworkConfig, Sampler
from squad.predictor import saving
from squad.predictor.answer import Answer, answer_of, on_grid, settled
from squad.predictor.certification import (
    CertificationError,
    certificate_for,
    check_pilot_rows,
    decide,
    identity,
    labelled,
)
from squad.predictor.device import choose_device
from squad.predictor.harms import Costs, expand, harm_names
from squad.predictor.piloting import ValidationScores, pilot_for, validation_scores
from squad.selective.attempts import attempts_in, next_attempt, noted, spends
from squad.selective.certificate import Certificate
from squad.selective.certify import Risk
from squad.selective.planning import check_share
from squad.selective.recalibration import Recalibration
from squad.selective.recalibration_fit import fit_recalibration
from squad.selective.scored_cases import Scores

__all__ = ["Predictor", "load"]

#: Rows that are transformed at once: memory stays bounded however many there are.
CHUNK = 8192

#: Called with the number of rows that were answered so far, and of all.
Progress = Callable[[int, int], None]

#: The kinds of class names that JSON keeps as they are.
Label = str | int | float | bool


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
        recalibration, certificate, calibration, seen_rows, row_distance, validation_scores: see the properties of the
            same names.
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
        recalibration: Recalibration | None = None,
        certificate: Certificate | None = None,
        calibration: Scores | None = None,
        seen_rows: SeenRows | None = None,
        row_distance: RowDistance | None = None,
        validation_scores: ValidationScores | None = None,
    ) -> None:
        _check_classes(classes, network.classes)
        if transform.features != network.in_features:
            raise ArgumentError.of(
                "transform", f"{transform.features} features", f"one that gives {network.in_features}"
            )
        if row_distance is not None and row_distance.features != network.in_features:
            raise ArgumentError.of(
                "row_distance", f"{row_distance.features} features", f"one of {network.in_features} features"
            )
        config.check_members(network.members or 1)
        self.network = (network if network.members is not None else stack([network])).eval()
        self.config = config
        self.transform = transform
        self.classes = tuple(classes)
        self._sampling, self._num_samples = config.check_sampling(sampling, num_samples)
        self.record = dict(record or {})
        self._recalibration = recalibration
        self._seen_rows = seen_rows
        self._row_distance = row_distance
        self._validation_scores = validation_scores
        self._sampler: Sampler | None = None
        self._sampled: tuple[tuple[int, int], ...] = ()
        self._certificate = certificate
        self._calibration = calibration
        self._bound: tuple[tuple[int, int], ...] = ()
        self._check_bound()

    @property
    def sampling(self) -> str:
        """How it is sampled; :meth:`with_sampling` gives another predictor."""
        return self._sampling

    @property
    def num_samples(self) -> int:
        """How many samples a member takes."""
        return self._num_samples

    @property
    def recalibration(self) -> Recalibration | None:
        """What its confidences go through, if anything; :meth:`recalibrate` gives another predictor."""
        return self._recalibration

    @property
    def certificate(self) -> Certificate | None:
        """What is guaranteed about its predictions, if anything; :meth:`certify` gives another predictor."""
        return self._certificate

    @property
    def calibration(self) -> Scores | None:
        """The scores that the certificate was made from, if they were kept."""
        return self._calibration

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """The attempts to certify it, the first one first: plain data.  Each may use its share of delta."""
        return attempts_in(self.record)

    @property
    def seen_rows(self) -> SeenRows | None:
        """Hashes of the rows that fit saw, if they were kept."""
        return self._seen_rows

    @property
    def row_distance(self) -> RowDistance | None:
        """What tells rows that are unlike those of training as a whole, if it was fitted."""
        return self._row_distance

    @property
    def validation_scores(self) -> ValidationScores | None:
        """Scores of the validation rows, if they were kept: they choose thresholds to be tested."""
        return self._validation_scores

    def _check_bound(self) -> None:
        """That the certificate belongs to the network as it is; weights that did not change are not hashed again."""
        if self.certificate is None:
            return
        now = _state_of(self.network)
        if now == self._bound:
            return
        if self.certificate.details.get("model") != identity(self):
            raise CertificationError(
                "A certificate must belong to the model it stands with; this one was made for other weights, another"
                " transformation or other samples. Certify the model as it is now."
            )
        self._bound = now

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
        state = (
            "" if self.certificate is None else ", certified" if self.certificate.certified else ", certifies nothing"
        )
        return f"Predictor({self.config.name} {sizes}{many}, {self.num_samples} {self.sampling} samples{state})"

    def __getstate__(self) -> dict[str, Any]:
        # What was made ready for asking is made anew; and a copy must open where there is no GPU.
        return {**vars(self), "_sampler": None, "_sampled": (), "network": copy.deepcopy(self.network).cpu()}

    def to(self, device: torch.device | str) -> "Predictor":
        """Compute on another device from now on; returns itself.

        Predictors that share its weights (:meth:`with_sampling`) move along.
        """
        self.network.to(choose_device(device))
        return self

    def with_sampling(self, sampling: str | None = None, num_samples: int | None = None) -> "Predictor":
        """The same network, sampled in another way; weights are shared.

        A certificate is about one way of sampling: of a certified predictor another one is an error.  Take
        ``predictor.uncertified().with_sampling(...)`` to look at what it would give.
        """
        new = self.config.check_sampling(
            self.sampling if sampling is None else sampling, self.num_samples if num_samples is None else num_samples
        )
        if self.certificate is not None and new != (self.sampling, self.num_samples):
            raise CertificationError(
                f"This model is certified with {self.num_samples} {self.sampling} samples, and the guarantee is for no"
                f" others, got {new[1]} {new[0]}. Leave the setting out, or certify the model with it."
            )
        return self._changed(sampling=new[0], num_samples=new[1])

    def uncertified(self) -> "Predictor":
        """The same without its certificate; weights are shared."""
        return self._changed(certificate=None, calibration=None)

    def remembering(self, other: "Predictor") -> "Predictor":
        """The same, with the attempts to certify it that ``other`` remembers, which was made from it."""
        return self.with_attempts(other.attempts)

    def with_attempts(self, attempts: Sequence[Mapping[str, Any]]) -> "Predictor":
        """The same, remembering these attempts to certify it."""
        return self._changed(record={**self.record, "attempts": attempts_in({"attempts": list(attempts)})})

    def without_row_hashes(self) -> "Predictor":
        """The same without the hashes of the rows that fit saw; weights are shared."""
        return self._changed(seen_rows=None, record={**self.record, "rows_sha256": None})

    def without_scores(self) -> "Predictor":
        """The same without the scores of its calibration set and its validation rows; weights are shared."""
        return self._changed(calibration=None, validation_scores=None)

    def with_validation_scores(self, x: Any, right: NDArray[np.int64]) -> "Predictor":
        """The same with the scores of validation rows; weights are shared.

        Args:
            x: these rows, as the transform takes them.
            right: (N,), the places of their right classes.
        """
        return self._changed(validation_scores=validation_scores(self, x, right))

    def _changed(self, **changes: Any) -> "Predictor":
        kept = {
            "sampling": self.sampling,
            "num_samples": self.num_samples,
            "record": self.record,
            "recalibration": self.recalibration,
            "certificate": self.certificate,
            "calibration": self.calibration,
            "seen_rows": self.seen_rows,
            "row_distance": self.row_distance,
            "validation_scores": self.validation_scores,
        }
        return Predictor(self.network, self.config, self.transform, self.classes, **{**kept, **changes})

    def certify(
        self,
        x: Any,
        y: Sequence[Any] | NDArray[Any],
        risk: Risk | Sequence[Risk],
        delta: float = 0.01,
        method: str = "fallback",
        *,
        by: str | ArrayLike | None = None,
        harms: Mapping[str, ArrayLike] | None = None,
        costs: Costs | None = None,
        weights: str | ArrayLike | None = None,
        max_weight: float | None = None,
        estimated_weights: bool = False,
        strata: str | ArrayLike | None = None,
        population: Mapping[Any, float] | None = None,
        groups: ArrayLike | None = None,
        one_per_group: bool = True,
        thresholds: Sequence[float] | None = None,
        ranks: int = 20,
        r_max: float = 0.1,
        pilot: tuple[Any, Sequence[Any] | NDArray[Any]] | None = None,
        source: str | None = None,
        progress: Progress | None = None,
    ) -> "Predictor":
        """The same predictor with a guarantee: at most ``risk`` of the predictions that it accepts are wrong.

        The guarantee holds with probability 1 - ``delta`` over the calibration rows, which must be like those to come
        and new to the model: rows (or groups) that fit has seen are refused; where they are few, they are left out with
        a warning, as are copies among the rows.  The result's answers are accepted or referred; ``result.certificate``
        says what was shown, and may say that nothing could be.

        The result remembers the attempt, whether it succeeded or not (:attr:`attempts`), unless rows were so few that
        no labels could have made it succeed.  To certify it again, with
        other rows or settings, is the next attempt, with the next share of delta: 90 %, 5 %, 2.5 % and so on.  The
        chance that any of these certificates is false is at most ``delta``.  The predictor itself does not change: who
        certifies that one again starts anew, and must not choose between the results.

        Args:
            x: the calibration rows, as :meth:`answer` takes them.
            y: (N,), their right labels.
            risk: the share of accepted answers that may be wrong; or a mapping from harm to risk, where harms are
                "wrong", "missed CLASS" (a case of the class that got another label), "false CLASS" (an answer that
                wrongly says so), "miss rate CLASS" (the share of accepted cases of the class that got another label;
                "miss rate" alone is that of every class), "cost" (the mean of ``costs``) and those of ``harms``; or
                several such targets.
            delta: the chance that any guarantee is false, of this attempt or an earlier one; not smaller than
                in those.
            method: see :func:`squad.certify`.
            by: gives every group its own threshold and guarantee: "label" (the answer's), a column of ``x``, or (N,)
                groups.
            harms: by name, (N,) 0 or 1: other things that an accepted row must not do too often; see
                :func:`squad.certify` for costs and NaN.
            costs: of the harm "cost", between 0 and 1: by (true class, predicted class), where None stands for all
                confusions that are not named; or a (C, C) array in the order of the classes.
            weights: (N,) or a column of ``x``: how much more frequent a row is among new ones than in the calibration
                sample, where this was not drawn like them; see :func:`squad.certify`.
            max_weight: the largest weight that any row can have, known beforehand.
            estimated_weights: they were estimated.
            strata: (N,) or a column of ``x``: the stratum of each row, where so many were taken of each.
            population: the share of each stratum among new rows.
            groups: (N,), which rows belong together, such as those of one patient; none may have been trained on.
                Those of the column that fit was told of are looked at in any case.
            one_per_group: use one row of each group, whichever a hash picks: rows of one patient are not independent,
                as the guarantee needs them to be.  False takes them all, and the certificate says so.
            thresholds: of the method "grid".
            ranks: of the method "bonferroni".
            r_max: of the method "band".
            pilot: of the methods "preset" and "pareto": (x, y), rows with their labels that choose the thresholds to be
                tested; none of them may be in the calibration set.  Without it the model's validation rows do that.
            source: what the rows are called in the certificate.
            progress: as of :meth:`answer`.
        """
        earlier = self.attempts
        attempt = next_attempt(earlier, check_share("delta", delta))
        risk = expand(risk, self.classes, harms or {})
        chosen = pilot_for(self, method, pilot, harm_names(risk), harms or {}, costs)  # before the work
        found = labelled(self, x, y, groups, one_per_group, progress)
        found.warn()
        if pilot is not None:
            check_pilot_rows(self, pilot[0], found)
        options = {"thresholds": thresholds, "ranks": ranks, "r_max": r_max, "pilot": chosen}
        sample = {
            "weights": weights,
            "max_weight": max_weight,
            "estimated_weights": estimated_weights,
            "strata": strata,
            "population": population,
        }
        made, scores = certificate_for(
            self,
            x,
            found,
            risk,
            delta,
            method,
            by=by,
            harms=harms,
            options=options,
            source=source,
            costs=costs,
            sample=sample,
            attempt=attempt,
        )
        attempts = [*earlier, noted(made)] if spends(made) else earlier
        return self._changed(certificate=made, calibration=scores, record={**self.record, "attempts": attempts})

    def recalibrate(
        self,
        x: Any,
        y: Sequence[Any] | NDArray[Any],
        method: str = "temperature",
        groups: ArrayLike | None = None,
        progress: Progress | None = None,
    ) -> "Predictor":
        """The same predictor with probabilities that are nearer to how often it is right; labels stay the same.

        It takes rows of their own: not those of training, and not those that it will be certified on, which are
        refused afterwards.  A certificate is lost, since confidences change.  Unless the rows show a clear gain in
        cross-validation, probabilities are left as they are (``recalibration.unchanged``).

        Args:
            x: rows, as :meth:`answer` takes them.
            y: (N,), their right labels.
            method: "temperature" (one number; the order of confidences stays) or "isotonic" (any rising curve).
            groups: (N,), which rows belong together; none may have been trained on.
            progress: as of :meth:`answer`.
        """
        raw = self._changed(recalibration=None, certificate=None, calibration=None)
        found = labelled(raw, x, y, groups, progress=progress)
        found.warn()
        fitted = fit_recalibration(found.answer.probabilities, found.positions, method)
        if self.seen_rows is None:
            return raw._changed(recalibration=fitted)
        repeats = with_more(self.record.get("repeats", NOTHING_KNOWN), self.seen_rows, found.hashes)
        seen_rows = self.seen_rows.with_rows(found.hashes, found.groups, found.cells)
        return raw._changed(recalibration=fitted, seen_rows=seen_rows, record={**self.record, "repeats": repeats})

    def answer(
        self,
        x: Any,
        *,
        by: ArrayLike | None = None,
        risk: float | Mapping[str, float] | None = None,
        progress: Progress | None = None,
    ) -> Answer:
        """Class probabilities with their confidence, entropy and mutual information, row by row.

        An answer is a function of its row: it does not depend on what else is in ``x``.

        Args:
            x: for a model that was fitted on a table or a data frame, a data frame (or a table that was read) with the
                columns of training in any order; otherwise an array (N, ...) like the one that was trained on.
            by: (N,), the group of each row, if the certificate is by groups that stand in no column.
            risk: which target decides, if the certificate has several.
            progress: is called with the number of rows answered so far, and of all.
        """
        rows = self.checked(x)
        if self.certificate is not None:
            known = {name for target in self.certificate.targets for name in target}
            risk = expand(risk, self.classes, known)
            self._check_bound()
            self.certificate.target(risk)  # before the work
        elif by is not None or risk is not None:
            raise ArgumentError.of("by and risk", "one of them", "left out: the model has no certificate")
        answer = self.undecided(rows, progress)
        return answer if self.certificate is None else decide(self, rows, answer, by, risk)

    def undecided(self, rows: Any, progress: Progress | None = None) -> Answer:
        """Answers to rows that were :meth:`checked`, whatever the certificate says."""
        count = len(rows)
        p = np.empty((count, len(self.classes)))
        inner = np.empty(count)
        problems: dict[int, str] = {}
        novel: dict[int, str] = {}
        sampler = self._ready()
        for start in range(0, count, CHUNK):
            end = start + CHUNK
            encoded = self.transform.apply(rows[start:end])
            drawn = sampler(torch.from_numpy(encoded.x))
            p[start:end] = _mean(drawn.probabilities).cpu().numpy()
            inner[start:end] = _mean(drawn.entropy).cpu().numpy()
            problems.update({start + row: reason for row, reason in encoded.problems.items()})
            unlike = {} if self.row_distance is None else self.row_distance.reasons(encoded.x)
            novel.update({start + row: reason for row, reason in {**unlike, **encoded.novel}.items()})
            if progress is not None:
                progress(min(end, count), count)
        finite = np.isfinite(p).all(1) & np.isfinite(inner)
        for row in np.flatnonzero(~finite).tolist():
            problems.setdefault(row, "the network's output is not finite: this row lies far outside the training range")
        entropy = -np.sum(np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0), 1)
        if self.members * sampler.num_samples == 1:
            inner = entropy  # nobody to disagree with: exactly 0, without the rounding of two sums
        p, confidence = settled(p)
        if self.recalibration is not None and not self.recalibration.unchanged:
            # From a confidence on the grid, which rounding does not reach.
            p[finite] = self.recalibration.apply(p[finite], confidence[finite])
            confidence = on_grid(p.max(1))
        # Rounding could leave either a hair below zero.
        mutual = np.maximum(entropy - inner, 0)
        return answer_of(p, confidence, np.maximum(entropy, 0), mutual, self.classes, problems, novel)

    def encode(self, rows: Any) -> Encoded:
        """Rows that were :meth:`checked`, as the network takes them."""
        return self.transform.apply(rows)

    def checked(self, x: Any) -> Any:
        """``x`` as the transform takes it: something with rows to slice."""
        if isinstance(self.transform, ArrayTransform) and self.transform.names is None:
            return self._array(x)
        if not isinstance(x, Table):
            if not is_frame(x):
                if isinstance(self.transform, ArrayTransform):
                    _warn_of_names("x has no column names, but the model was fitted with them: columns are taken in")
                    return self._array(x)
                hint = "This model was trained on a table: pandas.DataFrame(x, columns=[...]) names them."
                raise ArgumentError.of("x", type(x).__name__, "a pandas.DataFrame with the columns of training", hint)
            x = Table.of(x if hasattr(x, "iloc") else x.to_pandas())
        self.transform.apply(x[:0])
        return x

    def _array(self, x: Any) -> Any:
        """Rows of a model of arrays, by position."""
        assert isinstance(self.transform, ArrayTransform)
        if isinstance(x, Table):
            self.transform.apply(x)  # says what is wrong
        if is_frame(x) and (columns := list(x.columns)) != list(range(len(columns))):
            if sorted(columns, key=str) == sorted(range(len(columns)), key=str) and hasattr(x, "iloc"):
                x = x[list(range(len(columns)))]  # numbers that say where each column was
            else:
                _warn_of_names("x has column names, but the model was fitted without any: columns are taken in")
        if not isinstance(x, (np.ndarray, torch.Tensor)):
            try:
                x = np.asarray(x)
            except (TypeError, ValueError) as cause:
                reason = str(cause).splitlines()[0]
                raise ArgumentError.of("x", type(x).__name__, "an array of numbers", reason) from cause
        if tuple(x.shape[1:]) != self.transform.shape:
            self.transform.apply(x)  # says what is wrong, even if there are no rows
        return x

    def _ready(self) -> Sampler:
        """What predicts: made anew where weights have changed since, of which it holds copies."""
        now = _state_of(self.network)
        sampler = self._sampler
        if sampler is None or sampler.device != self.device or self._sampled != now:
            sampler = Sampler(self.network, self.sampling, self.num_samples)
            self._sampler, self._sampled = sampler, now
        return sampler

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
            more = f" and {len(unknown) - 5:,} more" if len(unknown) > 5 else ""
            raise ArgumentError.of("labels", ", ".join(unknown[:5]) + more, f"among the classes of training ({known})")
        return np.array(found, dtype=np.int64)

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the folder ``path``: model.safetensors, config.json and what belongs to them, whole or not at all.

        What is saved is not signed: the signature of a model that it replaces is gone.
        """
        self._check_bound()
        return saving.save(self, path, overwrite)

    @classmethod
    def load(
        cls, path: str | Path, device: torch.device | str = "cpu", public_key: str | Path | bytes | None = None
    ) -> "Predictor":
        """Read a folder that :meth:`save` wrote; see :func:`squad.load`."""
        device = choose_device(device)
        return saving.load(path, cls, public_key).to(device)


def is_frame(x: Any) -> bool:
    """Whether ``x`` is a data frame: pandas' own, or one that can become one; without importing pandas."""
    return hasattr(x, "columns") and (hasattr(x, "iloc") or hasattr(x, "to_pandas"))


def column_names(x: Any) -> list[str] | None:
    """The names of a data frame's columns, as text; None where there are none but their numbers, from 0."""
    if not is_frame(x) or list(x.columns) == list(range(len(x.columns))):
        return None
    names = [str(name) for name in x.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"X must have every column once; it has {listed(twice)} several times. Rename them.")
    return names


def _warn_of_names(what: str) -> None:
    warnings.warn(f"{what} the order of training.", SquadWarning, stacklevel=5)


def _state_of(network: Network) -> tuple[tuple[int, int], ...]:
    """What changes when a tensor of the network does, or another takes its place."""
    return tuple((tensor.data_ptr(), tensor._version) for tensor in network.state_dict().values())


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


def load(
    path: str | Path, device: torch.device | str = "cpu", public_key: str | Path | bytes | None = None
) -> Predictor:
    """A saved model, ready to answer; nothing in the folder is run.

    Its certificate must follow from the counts and calibration scores that are stored with it.

    Args:
        path: the folder that ``squad fit`` or ``Predictor.save`` wrote.
        device: where to compute.
        public_key: refuse a model that is not signed with this key (``squad sign``): a PEM file, or its content.
    """
    return Predictor.load(path, device, public_key)


def _check_classes(classes: Sequence[object], count: int) -> None:
    """Names that files keep, one for each class."""
    if len(classes) != count:
        raise ArgumentError.of("classes", f"{len(classes)} names", f"one for each of {count} classes")
    for name in classes:
        if not isinstance(name, str | int | float | bool) or (isinstance(name, float) and not math.isfinite(name)):
            raise ArgumentError.of("classes", repr(name)[:80], "texts, numbers or booleans")
    if len({isinstance(name, str) for name in classes}) > 1 or len(set(classes)) < count:
        raise ArgumentError.of("classes", repr(list(classes))[:80], "all texts or all numbers, each once")
