"""The classifier for those who use scikit-learn: fit, predict, and the answers behind a prediction."""

import numbers
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from squad.core.checks import check_count, check_number
from squad.data.identifiers import identifier_warning, is_identifier
from squad.errors import ArgumentError
from squad.fitting import FitSettings, fit_predictor
from squad.models import network_config
from squad.predictor import Predictor, choose_device
from squad.predictor.input_rows import column_names
from squad.predictor.row_pass import predict_readable
from squad.selective.certify import Risk
from squad.train import TrainConfig, make_progress

__all__ = ["SquadClassifier"]

#: Parameters that are settings of the network, and of training.
NETWORK = ("hidden", "bins", "dropout")
TRAINING = ("lr", "batch_size", "kl_multiplier", "max_epochs", "anneal_epochs")


class SquadClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A neural network with quantized latent variables (SQUAD), or one of the paper's baselines.

    It follows scikit-learn's rules, and works in its pipelines and searches.  Features are standardized within: a
    scaler in front changes nothing but rounding.  What is random is fixed when the network is trained, so a prediction
    is a function of its row.

    Args:
        model: the network: "squad", "squad-factorized", "mlp", "maxout-dropout", "relu-dropout" or "dlgm".
        hidden: units of each hidden layer.
        bins: how many values a latent can take.  None: the network's own number, 15 for "squad" and 37 for
            "squad-factorized"; a number is an error for a network without bins.
        members: how many networks are trained at once and answer together.
        dropout: rate of the dropout before each layer; one for each member if it is a tuple.  None: the network's own,
            .1 for "maxout-dropout" and "relu-dropout" and 0 for the others.
        lr: learning rate of Adam, a number or one a member.  None: .0008, and .003 for less than about 8,000 rows.
        batch_size: rows of a step.  None: 244, and for less than about 8,000 rows a 32nd of them, but 16 at least.
        kl_multiplier: the paper's beta: how much a latent's information about its row costs; a number or one a
            member.  None: the network's own, .0027 for "squad".
        max_epochs: passes over the rows at the most; training stops earlier when validation accuracy no longer grows.
        anneal_epochs: epochs over which the temperature of the samples falls.  None: 60, but two thirds of
            ``max_epochs`` at the most.
        sampling: how predictions sample: "stratified", "relaxed", "hard" or "mean" for SQUAD; "sample" or "mean" for
            dropout and "dlgm"; "mean" for "mlp".  None: the first of these.
        num_samples: samples of a prediction.  None: 8 for SQUAD, 32 for dropout and "dlgm".
        validation_fraction: share of the rows, stratified, that early stopping looks at and no member is trained on.
        network_options: other settings of the network, such as {"prior": "gaussian"} for "squad", {"rank": 2} for
            "squad-factorized" or {"pieces": 4} for "maxout-dropout": see ``squad.models``.
        training_options: other settings of training, such as {"weight_decay": 0.0, "stop_patience": 40}: see
            ``squad.train.TrainConfig``.
        refer_novel: never accept rows that are unlike the training rows (a number far outside its range, such as one in
            another unit or -999 for "unknown"; or a row that is far from all others).  They are predicted as any other,
            but a certified predictor refers them, with the reason.
        device: "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:1".
        random_state: the seed, or a ``numpy.random.RandomState`` to draw it from; None draws it from numpy's global
            generator.  Member i has the seed + i.
        verbose: 1 shows progress on stderr.

    Attributes:
        classes_: the labels, sorted.
        predictor_: the :class:`squad.Predictor`.  ``predictor_.answer(X)`` gives confidence, entropy and mutual
            information beside the label, and ``predictor_.save(path)`` writes it; ``predictor_.record`` says how
            training went.
        n_iter_: epochs of the member that trained longest.
        seed_: the seed that was used.
        n_features_in_, feature_names_in_: what was trained on; names if they were all text.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = SquadClassifier(hidden=(16,), max_epochs=20, random_state=0).fit(X, y)
    >>> classifier.predict(X[:3])
    array([0, 0, 0])
    >>> classifier.score(X, y) > 0.9
    True
    >>> classifier.predictor_.answer(X[:3]).confidence.min() > 0.9
    np.True_
    """

    def __init__(
        self,
        model: str = "squad",
        *,
        hidden: Sequence[int] = (32, 32),
        bins: int | None = None,
        members: int = 1,
        dropout: float | Sequence[float] | None = None,
        lr: float | Sequence[float] | None = None,
        batch_size: int | None = None,
        kl_multiplier: float | Sequence[float] | None = None,
        max_epochs: int = 200,
        anneal_epochs: int | Sequence[int] | None = None,
        sampling: str | None = None,
        num_samples: int | None = None,
        validation_fraction: float = 0.1,
        network_options: Mapping[str, Any] | None = None,
        training_options: Mapping[str, Any] | None = None,
        refer_novel: bool = True,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.hidden = hidden
        self.bins = bins
        self.members = members
        self.dropout = dropout
        self.lr = lr
        self.batch_size = batch_size
        self.kl_multiplier = kl_multiplier
        self.max_epochs = max_epochs
        self.anneal_epochs = anneal_epochs
        self.sampling = sampling
        self.num_samples = num_samples
        self.validation_fraction = validation_fraction
        self.network_options = network_options
        self.training_options = training_options
        self.refer_novel = refer_novel
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, groups: ArrayLike | None = None) -> Self:  # noqa: N803
        """Train.

        Args:
            X: (rows, features), numbers, all of them finite; an array or a data frame.
            y: (rows,), the labels: text, whole numbers or booleans, of two classes at least.
            groups: (rows,), which rows belong together, such as those of one patient: none of them is both trained on
                and validated on.
        """
        names = column_names(X)
        seed = self._seed()
        settings = self._settings(seed)
        verbose = check_count("verbose", int(self.verbose), 0)
        device = choose_device(self.device)
        X, y = validate_data(self, X, y, dtype=(np.float64, np.float32), ensure_min_samples=2)  # noqa: N806
        check_classification_targets(y)
        if groups is not None:
            groups = np.asarray(groups)
            check_consistent_length(X, groups)
        self._warn_of_identifiers(X)
        progress = make_progress() if verbose else None
        self.predictor_ = fit_predictor(
            X,
            y,
            settings,
            groups=groups,
            device=device,
            progress=progress,
            names=names,
            refer_novel=bool(self.refer_novel),
        )
        self.classes_ = np.unique(y)
        self.seed_ = seed
        results = self.predictor_.record["members"]
        self.n_iter_ = max(result["epochs"] for result in results)
        diverged = sum(result["ended"] == "diverged" for result in results)
        if diverged:
            warnings.warn(
                f"The loss of {diverged} of {len(results)} members was no longer finite; {self.predictor_.members} can "
                "be used, with the weights from before. Try a lower learning rate (lr).",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _warn_of_identifiers(self, X: NDArray[Any]) -> None:  # noqa: N803
        """Of a data frame, columns that look like identifiers are worth a warning."""
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        found = [name for place, name in enumerate(names) if is_identifier(name, np.asarray(X[:, place], np.float64))]
        if found:
            warnings.warn(identifier_warning(found, option=False), UserWarning, stacklevel=3)

    def certify(
        self,
        X: Any,  # noqa: N803
        y: Any,
        risk: Risk | Sequence[Risk],
        delta: float = 0.01,
        method: str = "fallback",
        **options: Any,
    ) -> Predictor:
        """The trained network with a promise: at most ``risk`` of the answers that it accepts are wrong.

        Args:
            X: calibration rows, new to the classifier and like those to come.  Columns of a data frame may come in any
                order.  If the classifier is the last step of a pipeline, pass ``pipe[:-1].transform(X)``, here and to
                ``answer``: this method does not know the steps before.
            y: (rows,), their labels.
            risk: the share of accepted answers that may be wrong; or several, or harms: see
                :meth:`squad.Predictor.certify`.
            delta: the chance that the promise is false.
            method: how the threshold is found.
            options: further arguments of :meth:`squad.Predictor.certify`, such as ``groups`` and ``by``.

        Returns:
            A predictor whose answers are accepted or referred.  The classifier itself stays as it is.
        """
        check_is_fitted(self)
        return self.predictor_.certify(X, y, risk, delta, method, **options)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most likely class of each row of X (rows, features): (rows,)."""
        check_is_fitted(self, "predictor_")
        label: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(1)]
        return label

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The probability of each class, in the order of ``classes_``, for X (rows, features): (rows, classes)."""
        check_is_fitted(self, "predictor_")
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)  # noqa: N806
        return predict_readable(self.predictor_, X).probabilities

    def _seed(self) -> int:
        """An int is the seed itself, so that the command with the same seed trains the same network."""
        generator = check_random_state(self.random_state)
        given: Any = self.random_state
        return int(given if isinstance(given, numbers.Integral) else generator.randint(np.iinfo(np.int32).max))

    def _settings(self, seed: int) -> FitSettings:
        """The parameters, checked; what is wrong is a ValueError that names the parameter."""
        return FitSettings(
            network=network_config(self.model, self._given(NETWORK, "network_options")),
            training=TrainConfig.of(self._given(TRAINING, "training_options")),
            members=check_count("members", self.members, 1),
            seed=seed,
            validation=check_number("validation_fraction", self.validation_fraction, 0.0, 0.9, exclude=0.0),
            sampling=self.sampling,
            num_samples=None if self.num_samples is None else check_count("num_samples", self.num_samples, 1),
        )

    def _given(self, names: Sequence[str], options: str) -> dict[str, Any]:
        """The parameters, and the options; bins and dropout that are None are left to the network."""
        more = getattr(self, options)
        more = {} if more is None else more
        if not isinstance(more, Mapping):
            raise ArgumentError.of(options, repr(more), "a dict of settings by name, or None")
        for name in names:
            if name in more:
                hint = f"Give {name}={more[name]!r} instead."
                raise ArgumentError.of(options, f"one with {name}", f"without {name}, a parameter of its own", hint)
        given = {name: getattr(self, name) for name in names}
        left = {name for name in ("bins", "dropout") if getattr(self, name) is None}
        return {name: _plain(value) for name, value in {**given, **more}.items() if name not in left}


def _plain(value: Any) -> Any:
    """Without numpy's types, which searches hand over and files cannot hold."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return tuple(_plain(item) for item in value)
    return value
