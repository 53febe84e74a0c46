"""The predictor: a trained network with its input transform, classes, sampling mode, seeds and certificate."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from squad.core.checks import check_fraction
from squad.data.array_transform import ArrayTransform
from squad.data.chance_repeats import NOTHING_KNOWN, add_repeats
from squad.data.novelty import RowDistance
from squad.data.seen_rows import SeenRows
from squad.data.transforms import TableTransform
from squad.errors import ArgumentError, SquadError
from squad.layers import stack
from squad.models import Network, NetworkConfig, Sampler
from squad.predictor import saving
from squad.predictor.answer import Answer
from squad.predictor.calibration_rows import CertificationError, calibration_rows, check_pilot_rows
from squad.predictor.certification import certificate_for, identity
from squad.predictor.device import choose_device
from squad.predictor.harms import Costs, expand, harm_names
from squad.predictor.input_rows import Label, check_classes, input_rows
from squad.predictor.piloting import ValidationScores, pilot_for
from squad.predictor.predictor_html import predictor_html
from squad.predictor.row_pass import Progress, decide, encode_in_chunks, predict, predict_readable
from squad.selective.attempts import attempt_record, attempts_in, counts_as_attempt, next_attempt
from squad.selective.certificate import Certificate
from squad.selective.certify import Risk
from squad.selective.recalibration import Recalibration
from squad.selective.recalibration_fit import fit_recalibration
from squad.selective.scored_cases import Scores

__all__ = ["Predictor", "load"]


class Predictor:
    """A trained network that predicts rows, can be certified, and is saved as a folder.

    Made by ``SquadClassifier.fit`` (as ``predictor_``), by :func:`squad.load` and by ``squad fit``.  A predictor does
    not change: methods such as :meth:`certify` return another one, which shares its weights.

    Args:
        network: The network; it is put into eval mode.
        config: Settings of the network.
        transform: Transform from rows to the network's input.
        classes: Class labels, in the order of the network's outputs.
        sampling: Sampling mode at prediction time; None: the network's default.
        num_samples: Number of samples T per member; None: the network's default.
        record: How the model was made, as plain data.
        recalibration: Map that confidences go through; None for no recalibration.
        certificate: What is guaranteed about the predictions; None for an uncertified model.
        calibration: Scores that the certificate was made from; None if they are not stored.
        seen_rows: Hashes of the rows that fit has seen; None if they are not stored.
        row_distance: Detector of rows that are unlike the training rows as a whole; None if it was not fitted.
        validation_scores: Scores of the validation rows; None if they are not stored.

    Attributes:
        network: The network with its members, in eval mode.
        config: Settings of the network.
        transform: Transform from rows to the network's input.
        classes: Class labels, in the order of the probabilities.
        record: How the model was made, as plain data.

    See Also:
        squad.SquadClassifier: Trains a predictor the scikit-learn way.
        squad.load: Loads a saved predictor.
        squad.Certificate: The guarantee of a certified predictor.

    References:
        Veeling, van den Berg and Welling, "Predictive Uncertainty through Quantization", 2018 (the networks).
        Geifman and El-Yaniv, "Selective Classification for Deep Neural Networks", 2017 (the confidence).

    Examples:
        >>> import squad
        >>> from sklearn.datasets import make_classification
        >>> X, y = make_classification(3000, class_sep=2.0, random_state=0)
        >>> model = squad.SquadClassifier(hidden=(16,), max_epochs=10, random_state=0).fit(X[:1000], y[:1000])
        >>> certified = model.certify(X[1000:2000], y[1000:2000], risk=0.05)
        >>> answer = certified.answer(X[2000:])
        >>> wrong = answer.label != y[2000:]
        >>> bool(wrong[answer.accepted].mean() <= 0.05)
        True
        >>> certified.predict(X[2000:2003], abstain_label=-1).shape
        (3,)
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
        check_classes(classes, network.classes)
        if transform.features != network.in_features:
            raise ArgumentError(
                f"transform must have as many features as the network has inputs ({network.in_features}), got"
                f" {transform.features}."
            )
        if row_distance is not None and row_distance.features != network.in_features:
            raise ArgumentError(
                f"row_distance must have as many features as the network has inputs ({network.in_features}), got"
                f" {row_distance.features}."
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
        self._sampler_state: tuple[tuple[int, int], ...] = ()
        self._certificate = certificate
        self._calibration = calibration
        self._certified_state: tuple[tuple[int, int], ...] = ()
        self._check_certificate()

    @property
    def sampling(self) -> str:
        """Sampling mode at prediction time; :meth:`with_sampling` returns a predictor with another one."""
        return self._sampling

    @property
    def num_samples(self) -> int:
        """Number of samples T per member."""
        return self._num_samples

    @property
    def recalibration(self) -> Recalibration | None:
        """The map that its confidences go through, or None; :meth:`recalibrate` returns a recalibrated predictor."""
        return self._recalibration

    @property
    def certificate(self) -> Certificate | None:
        """What is guaranteed about its predictions, or None; :meth:`certify` returns a certified predictor."""
        return self._certificate

    @property
    def calibration(self) -> Scores | None:
        """The scores that the certificate was made from, if they are stored."""
        return self._calibration

    @property
    def attempts(self) -> list[dict[str, Any]]:
        """The attempts to certify it, in order, as plain data.  Each uses its own part of delta."""
        return attempts_in(self.record)

    @property
    def seen_rows(self) -> SeenRows | None:
        """Hashes of the rows that fit has seen, if they are stored."""
        return self._seen_rows

    @property
    def row_distance(self) -> RowDistance | None:
        """The detector of rows that are unlike the training rows as a whole, if it was fitted."""
        return self._row_distance

    @property
    def validation_scores(self) -> ValidationScores | None:
        """Scores of the validation rows, if they are stored; the thresholds of some methods are chosen by them."""
        return self._validation_scores

    @property
    def members(self) -> int:
        """Number of networks in the ensemble."""
        return self.network.members or 1

    @property
    def device(self) -> torch.device:
        """The device it computes on."""
        return next(self.network.parameters()).device

    def __repr__(self) -> str:
        sizes = " - ".join(map(str, (self.network.in_features, *self.config.hidden, len(self.classes))))
        many = f", {self.members} members" if self.members > 1 else ""
        state = (
            "" if self.certificate is None else ", certified" if self.certificate.certified else ", certifies nothing"
        )
        return f"Predictor({self.config.name} {sizes}{many}, {self.num_samples} {self.sampling} samples{state})"

    def _repr_html_(self) -> str:
        """A summary for notebooks: network, classes, rows, certificate."""
        return predictor_html(self)

    def __getstate__(self) -> dict[str, Any]:
        # The sampler is rebuilt when needed, and a copy must load on machines without a GPU.
        return {**vars(self), "_sampler": None, "_sampler_state": (), "network": copy.deepcopy(self.network).cpu()}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        if "_seen_rows" not in state:
            raise SquadError(
                "This pickle was made by another version of squad-torch. Save models with Predictor.save, which keeps"
                " them readable, and load them with squad.load."
            )
        vars(self).update(state)

    def _check_certificate(self) -> None:
        """Check that the certificate belongs to the network as it is; unchanged weights are not hashed again."""
        if self.certificate is None:
            return
        now = _tensor_versions(self.network)
        if now == self._certified_state:
            return
        if self.certificate.details.get("model") != identity(self):
            raise CertificationError(
                "The certificate does not belong to this model: it was made for other weights, another input transform"
                " or another sampling mode. Certify the model as it is now."
            )
        self._certified_state = now

    def to(self, device: torch.device | str) -> "Predictor":
        """Move the network to another device, like ``torch.nn.Module.to``; returns itself.

        Predictors that share its weights move along.
        """
        self.network.to(choose_device(device))
        return self

    def with_sampling(self, sampling: str | None = None, num_samples: int | None = None) -> "Predictor":
        """Return the predictor with another sampling mode or number of samples; weights are shared.

        A certificate is valid for one sampling mode: changing that of a certified predictor is an error.  Use
        ``predictor.uncertified().with_sampling(...)`` to see what another one would predict.

        Args:
            sampling: Sampling mode; None: unchanged.
            num_samples: Number of samples T per member; None: unchanged.
        """
        new = self.config.check_sampling(
            self.sampling if sampling is None else sampling, self.num_samples if num_samples is None else num_samples
        )
        if self.certificate is not None and new != (self.sampling, self.num_samples):
            raise CertificationError(
                f"This model is certified with {self.num_samples} {self.sampling} samples, and the guarantee does not"
                f" hold for {new[1]} {new[0]} samples. Leave the setting out, or certify the model with it."
            )
        return self._replace(sampling=new[0], num_samples=new[1])

    def uncertified(self) -> "Predictor":
        """Return the predictor without its certificate; weights are shared."""
        return self._replace(certificate=None, calibration=None)

    def without_row_hashes(self) -> "Predictor":
        """Return the predictor without the hashes of the rows that fit has seen; weights are shared.

        It can no longer refuse to be certified on rows that it was trained on.
        """
        return self._replace(seen_rows=None, record={**self.record, "rows_sha256": None})

    def without_scores(self) -> "Predictor":
        """Return the predictor without the scores of its calibration set and validation rows; weights are shared."""
        return self._replace(calibration=None, validation_scores=None)

    def _replace(self, **changes: Any) -> "Predictor":
        """Return the predictor with other values of some constructor arguments; weights are shared."""
        unchanged = {
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
        return Predictor(self.network, self.config, self.transform, self.classes, **{**unchanged, **changes})

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
        """Return a certified predictor: at most ``risk`` of the predictions that it accepts are wrong.

        The guarantee holds with probability 1 - ``delta`` over the calibration rows, which must be drawn like the rows
        to come and must be new to the model: rows (or groups) that fit has seen are refused; if they are few, they are
        left out with a warning, as are copies among the rows.  Predictions of the result are accepted or referred.
        ``result.certificate`` says what was shown, and whether nothing could be.

        The result records the attempt, whether it succeeded or not (:attr:`attempts`), unless there were too few rows
        for any labels to make it succeed.  Certifying the result again, with other rows or settings, is the next
        attempt, with the next part of delta: 90 %, 5 %, 2.5 % and so on.  The probability that any of these
        certificates is false is at most ``delta``.  The predictor itself does not change: certifying it again starts
        from the beginning, and then one must not choose between the results.

        Args:
            x: Calibration rows, as :meth:`answer` takes them.
            y: (N,), their true labels.
            risk: Selective risk: the fraction of accepted predictions that may be wrong.  Or a mapping from harm to
                risk, with the harms "wrong", "missed CLASS" (a case of the class got another label), "false CLASS" (a
                prediction of the class is wrong), "miss rate CLASS" (the fraction of accepted cases of the class that
                got another label; "miss rate" alone is that of every class), "cost" (the mean of ``costs``) and those
                of ``harms``.  Or several such targets.
            delta: Probability that any guarantee is false, of this attempt or an earlier one; the confidence level is
                1 - delta.  It must not be smaller than in earlier attempts.
            method: Method of selection, see :func:`squad.certify`.
            by: A threshold and a guarantee per group: "label" (the predicted one), a column of ``x``, or (N,) groups.
            harms: Name -> (N,) 0 or 1, losses that an accepted row must not cause too often; see
                :func:`squad.certify` for costs and NaN.
            costs: Costs between 0 and 1 for the harm "cost": by (true class, predicted class), where None stands for
                all confusions that are not named; or a (C, C) array in the order of the classes.
            weights: (N,) or a column of ``x``: how much more frequent a row is among new rows than in the calibration
                set, if the set was not drawn like the new rows; see :func:`squad.certify`.
            max_weight: The largest weight that any row can have, known beforehand.
            estimated_weights: Whether the weights were estimated.
            strata: (N,) or a column of ``x``: the stratum of each row, if a fixed number of rows per stratum was drawn.
            population: Stratum -> its fraction among new rows.
            groups: (N,), rows that belong together, such as those of one patient; none may have been trained on.  The
                column of groups that fit used is checked in any case.
            one_per_group: Use one row per group, picked by a hash, because rows of one patient are not independent, as
                the guarantee assumes.  False uses all rows, and the certificate says so.
            thresholds: Thresholds of the method "grid".
            ranks: Number of thresholds of the method "bonferroni".
            r_max: Largest risk of the method "band".
            pilot: (x, y), labelled rows that choose the thresholds of the methods "preset" and "pareto"; none of them
                may be in the calibration set.  Default: the validation rows of the model.
            source: What the certificate calls the calibration set.
            progress: Called with the number of rows predicted so far, and of all rows.

        Returns:
            A predictor with a certificate.  Check ``result.certificate.certified``.

        See Also:
            squad.certify: The same for the confidences of any model.
            squad.plan: How many labelled rows a certificate takes.
        """
        earlier = self.attempts
        attempt = next_attempt(earlier, check_fraction("delta", delta))
        risk = expand(risk, self.classes, harms or {})
        chosen = pilot_for(self, method, pilot, harm_names(risk), harms or {}, costs)  # before the long work
        calibration = calibration_rows(self, x, y, groups, one_per_group, progress)
        calibration.warn()
        if pilot is not None:
            check_pilot_rows(self, pilot[0], calibration)
        made, scores = certificate_for(
            self,
            calibration,
            risk,
            delta,
            method,
            by=by,
            harms=harms,
            options={"thresholds": thresholds, "ranks": ranks, "r_max": r_max, "pilot": chosen},
            source=source,
            costs=costs,
            sample={
                "weights": weights,
                "max_weight": max_weight,
                "estimated_weights": estimated_weights,
                "strata": strata,
                "population": population,
            },
            attempt=attempt,
        )
        attempts = [*earlier, attempt_record(made)] if counts_as_attempt(made) else earlier
        return self._replace(certificate=made, calibration=scores, record={**self.record, "attempts": attempts})

    def recalibrate(
        self,
        x: Any,
        y: Sequence[Any] | NDArray[Any],
        method: str = "temperature",
        groups: ArrayLike | None = None,
        progress: Progress | None = None,
    ) -> "Predictor":
        """Return a recalibrated predictor: its probabilities are closer to how often it is right; labels do not change.

        It needs rows of their own: neither training rows, nor rows that will certify the model, which are refused
        afterwards.  A certificate is lost, since confidences change.  Unless cross-validation on the rows shows a clear
        gain, probabilities stay as they are (``recalibration.unchanged``).

        Args:
            x: Rows, as :meth:`answer` takes them.
            y: (N,), their true labels.
            method: "temperature" (one number; the order of confidences stays) or "isotonic" (any increasing map).
            groups: (N,), rows that belong together; none may have been trained on.
            progress: Called with the number of rows predicted so far, and of all rows.

        Returns:
            A predictor with a recalibration map, and without a certificate.

        References:
            Guo, Pleiss, Sun and Weinberger, "On Calibration of Modern Neural Networks", 2017 (temperature).
            Zadrozny and Elkan, "Transforming Classifier Scores into Accurate Multiclass Probability Estimates", 2002
            (isotonic).
        """
        raw = self._replace(recalibration=None, certificate=None, calibration=None)
        rows = calibration_rows(raw, x, y, groups, progress=progress)
        rows.warn()
        fitted = fit_recalibration(rows.answer.probabilities, rows.positions, method)
        if self.seen_rows is None:
            return raw._replace(recalibration=fitted)
        repeats = add_repeats(self.record.get("repeats", NOTHING_KNOWN), self.seen_rows, rows.hashes)
        seen_rows = self.seen_rows.with_rows(rows.hashes, rows.groups, rows.cells)
        return raw._replace(recalibration=fitted, seen_rows=seen_rows, record={**self.record, "repeats": repeats})

    def answer(
        self,
        x: Any,
        *,
        by: ArrayLike | None = None,
        risk: float | Mapping[str, float] | None = None,
        progress: Progress | None = None,
    ) -> Answer:
        """Predict rows, with confidence, entropy and mutual information, and accept or refer each one.

        A prediction is a function of its row: it does not depend on the other rows of ``x``.

        Args:
            x: For a model fitted on a table or a data frame: a data frame (or a table that was read) with the same
                columns in any order.  Otherwise an array (N, ...) like that of the training set.
            by: (N,), the group of each row, if the certificate is by groups that were given as an array.
            risk: Target of the certificate that decides, if it has several.
            progress: Called with the number of rows predicted so far, and of all rows.

        Returns:
            The predictions; ``answer.accepted`` says which ones the certificate accepts.
        """
        rows = input_rows(self.transform, x)
        if self.certificate is not None:
            known = {name for target in self.certificate.targets for name in target}
            risk = expand(risk, self.classes, known)
            self._check_certificate()
            self.certificate.target(risk)  # before the long work
        elif by is not None or risk is not None:
            raise ArgumentError("`by` and `risk` need a certified model. Certify it first.")
        answer = predict(self, encode_in_chunks(self, rows), len(rows), progress)
        return answer if self.certificate is None else decide(self, rows, answer, by, risk)

    def predict(
        self,
        x: Any,
        *,
        abstain_label: Any = None,
        by: ArrayLike | None = None,
        risk: float | Mapping[str, float] | None = None,
    ) -> NDArray[Any]:
        """Return the most likely class of each row, (N,), like the ``predict`` of scikit-learn's classifiers.

        Args:
            x: Rows, as :meth:`answer` takes them.
            abstain_label: Label of the rows that the certificate refers to a reviewer, such as -1 or "refer"; it must
                differ from the classes, and needs a certified model.  None: the most likely class of every row,
                whether it is accepted or not.
            by: (N,), the group of each row, as in :meth:`answer`; only with ``abstain_label``.
            risk: Target of the certificate that decides, as in :meth:`answer`; only with ``abstain_label``.

        Returns:
            The labels; of type object if the abstain label has another type than the classes.
        """
        if abstain_label is None:
            if by is not None or risk is not None:
                raise ArgumentError("`by` and `risk` decide where to abstain. Pass `abstain_label` too, or omit them.")
            return predict_readable(self, input_rows(self.transform, x)).label
        if self.certificate is None:
            raise ArgumentError("`abstain_label` needs a certified model. Certify it first.")
        given = abstain_label.item() if isinstance(abstain_label, np.generic) else abstain_label
        if not isinstance(given, str | int | float | bool):
            raise ArgumentError.of("abstain_label", repr(given)[:60], "a text or a number")
        if given in self.classes:
            raise ArgumentError(f"abstain_label must differ from the classes, got {given!r}. Use another label.")
        answer = self.answer(x, by=by, risk=risk)
        label = answer.label.astype(object)
        label[~answer.accepted] = given
        if type(given) is not type(self.classes[0]):
            return label
        return label.astype(np.result_type(np.array(self.classes), np.array(given)))

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        """Return the probability of each class, (N, classes), in the order of ``classes``."""
        return predict_readable(self, input_rows(self.transform, x)).probabilities

    def _ready_sampler(self) -> Sampler:
        """Return the sampler; it holds copies of the weights, and is rebuilt if these have changed."""
        now = _tensor_versions(self.network)
        sampler = self._sampler
        if sampler is None or sampler.device != self.device or self._sampler_state != now:
            sampler = Sampler(self.network, self.sampling, self.num_samples)
            self._sampler, self._sampler_state = sampler, now
        return sampler

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the folder ``path`` atomically: model.safetensors, config.json and the files that belong to them.

        A saved model is not signed: replacing a signed one removes its signature.

        Args:
            path: The folder.
            overwrite: Replace a model that is there.

        Returns:
            The folder.
        """
        self._check_certificate()
        return saving.save(self, path, overwrite)

    @classmethod
    def load(
        cls, path: str | Path, device: torch.device | str = "cpu", public_key: str | Path | bytes | None = None
    ) -> "Predictor":
        """Read a folder that :meth:`save` wrote; see :func:`squad.load`."""
        device = choose_device(device)
        return saving.load(path, cls, public_key).to(device)


def _tensor_versions(network: Network) -> tuple[tuple[int, int], ...]:
    """Return what changes when a tensor of the network is modified or replaced."""
    return tuple((tensor.data_ptr(), tensor._version) for tensor in network.state_dict().values())


def load(
    path: str | Path, device: torch.device | str = "cpu", public_key: str | Path | bytes | None = None
) -> Predictor:
    """Load a saved model; nothing in the folder is executed.

    Its certificate is checked against the counts and calibration scores that are stored with it.

    Args:
        path: Folder written by ``squad fit`` or ``Predictor.save``.
        device: Device to compute on: "auto", "cpu", "cuda" or "cuda:1".
        public_key: Refuse a model that is not signed with this key (``squad sign``): a PEM file, or its content.

    Returns:
        The predictor.

    See Also:
        squad.Predictor.save: Writes the folder.

    Examples:
        >>> import tempfile, squad
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = squad.SquadClassifier(hidden=(8,), max_epochs=5, random_state=0).fit(X, y)
        >>> folder = model.predictor_.save(tempfile.mkdtemp() + "/iris")
        >>> squad.load(folder)
        Predictor(squad 4 - 8 - 3, 8 stratified samples)
    """
    return Predictor.load(path, device, public_key)
