"""The scikit-learn classifier."""

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
from squad.files.plain import plain_settings
from squad.fitting import FitSettings, fit_predictor
from squad.models import network_config
from squad.predictor import Predictor, choose_device
from squad.predictor.input_rows import column_names
from squad.predictor.row_pass import predict_readable
from squad.selective.certify import Risk
from squad.train import TrainConfig, make_progress

__all__ = ["SquadClassifier"]

#: Parameters that configure the network, and those that configure training.
NETWORK = ("hidden", "bins", "dropout")
TRAINING = ("lr", "batch_size", "kl_multiplier", "max_epochs", "anneal_epochs")


class SquadClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Neural network with quantized latent variables (SQUAD), or one of the paper's baselines.

    A scikit-learn classifier: it works in pipelines and searches.  Features are standardized internally, so a scaler in
    front changes nothing but rounding.  Noise at prediction time is fixed by the seed, so a prediction is a function of
    its row.

    Args:
        model: The network: "squad", "squad-factorized", "mlp", "maxout-dropout", "relu-dropout" or "dlgm".
        hidden: Units of each hidden layer.
        bins: Number of values that a latent variable can take.  None: the network's default, 15 for "squad" and 37 for
            "squad-factorized"; a number is an error for a network without bins.
        members: Number of networks in the ensemble, trained together (batched).
        dropout: Dropout rate before each layer, a number or one per member.  None: the network's default, 0.1 for
            "maxout-dropout" and "relu-dropout" and 0 for the others.
        lr: Learning rate of Adam, a number or one per member.  None: 0.0008, and 0.003 for less than about 8,000 rows.
        batch_size: Rows per step.  None: 244; for less than about 8,000 rows, 1/32 of them, but at least 16.
        kl_multiplier: Weight β of the KL term in the loss: the price of a latent variable's information about its row;
            a number or one per member.  None: the network's default, 0.0027 for "squad".
        max_epochs: Maximum number of passes over the rows; early stopping by validation accuracy may end training
            before.
        anneal_epochs: Epochs over which the temperature of the samples is annealed.  None: 60, but at most two thirds
            of ``max_epochs``.
        sampling: Sampling mode at prediction time: "stratified", "relaxed", "hard" or "mean" for SQUAD; "sample" or
            "mean" for dropout and "dlgm"; "mean" for "mlp".  None: the first of these.
        num_samples: Number of samples T per prediction.  None: 8 for SQUAD, 32 for dropout and "dlgm".
        validation_fraction: Fraction of the rows, stratified, held out for early stopping.
        network_options: Other settings of the network, such as {"prior": "gaussian"} for "squad", {"rank": 2} for
            "squad-factorized" or {"pieces": 4} for "maxout-dropout"; see ``squad.models``.
        training_options: Other settings of training, such as {"weight_decay": 0.0, "stop_patience": 40}; see
            ``squad.train.TrainConfig``.
        refer_novel: Never accept rows that are unlike the training rows (a number far outside its range, such as one in
            another unit or -999 for "unknown"; or a row that is far from all others).  They are predicted like any
            other, but a certified predictor refers them, with the reason.
        device: "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:1".
        random_state: The seed, or a ``numpy.random.RandomState`` to draw it from; None draws it from numpy's global
            generator.  Member i has the seed + i.
        verbose: 1 shows progress on stderr.

    Attributes:
        classes_: The classes, sorted.
        predictor_: The :class:`squad.Predictor`.  ``predictor_.answer(X)`` returns labels with confidence, entropy and
            mutual information, ``predictor_.save(path)`` writes the model, and ``predictor_.record`` says how training
            went.
        n_iter_: Number of epochs of the member that trained longest.
        seed_: The seed that was used.
        n_features_in_, feature_names_in_: Number and names of the features; names if all of them are text.

    See Also:
        squad.Predictor: The trained model; what :meth:`certify` returns.
        squad.tune: Searches for the best settings.

    References:
        B. S. Veeling, R. van den Berg, M. Welling. Predictive Uncertainty through Quantization. 2018. arXiv:1810.05500.

    Examples:
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
        """Fit the classifier.

        Args:
            X: (rows, features), finite numbers; an array or a data frame.
            y: (rows,), the labels: text, integers or booleans, with at least two classes.
            groups: (rows,), rows that belong together, such as those of one patient; rows of one group always land in
                the same split.

        Returns:
            The fitted classifier.
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
                f"The loss of {diverged} of {len(results)} members became infinite or NaN; {self.predictor_.members} "
                "can be used, with their weights from before that. Try a lower learning rate (lr).",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _warn_of_identifiers(self, X: NDArray[Any]) -> None:  # noqa: N803
        """Warn about columns of a data frame that look like identifiers."""
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        found = [name for index, name in enumerate(names) if is_identifier(name, np.asarray(X[:, index], np.float64))]
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
        """Return a certified predictor: at most ``risk`` of the predictions that it accepts are wrong.

        Args:
            X: Calibration rows, new to the classifier and from the same distribution as future rows.  Columns of a
                data frame may come in any order.  If the classifier is the last step of a pipeline, pass
                ``pipe[:-1].transform(X)``, here and to the predictor: this method does not know the steps before.
            y: (rows,), their labels.
            risk: Selective risk: the fraction of accepted predictions that may be wrong.  Or several, or harms: see
                :meth:`squad.Predictor.certify`.
            delta: Probability that the guarantee is false; the confidence level is 1 - delta.
            method: Method of selection, see :func:`squad.certify`.
            options: Further arguments of :meth:`squad.Predictor.certify`, such as ``groups`` and ``by``.

        Returns:
            A :class:`squad.Predictor` with ``predict``, ``predict_proba`` and ``answer``, whose predictions are
            accepted or referred.  The classifier remembers the attempt: certifying it again, with other rows or
            settings, uses the next part of delta, as :meth:`squad.Predictor.certify` describes.

        Examples:
            >>> from sklearn.datasets import make_classification
            >>> X, y = make_classification(2000, class_sep=2.0, random_state=0)
            >>> classifier = SquadClassifier(hidden=(16,), max_epochs=10, random_state=0).fit(X[:1000], y[:1000])
            >>> certified = classifier.certify(X[1000:], y[1000:], risk=0.05)
            >>> certified.predict(X[:3], abstain_label=-1).shape
            (3,)
        """
        check_is_fitted(self)
        certified = self.predictor_.certify(X, y, risk, delta, method, **options)
        self.predictor_ = certified.uncertified()
        return certified

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the most likely class of each row.

        Args:
            X: (rows, features), as for :meth:`fit`.

        Returns:
            (rows,), classes.
        """
        check_is_fitted(self, "predictor_")
        label: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(1)]
        return label

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of each class.

        Args:
            X: (rows, features), as for :meth:`fit`.

        Returns:
            (rows, classes), probabilities in the order of ``classes_``.
        """
        check_is_fitted(self, "predictor_")
        X = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)  # noqa: N806
        return predict_readable(self.predictor_, X).probabilities

    def _seed(self) -> int:
        """Return the seed; an int is the seed itself, so that ``squad fit --seed`` trains the same network."""
        generator = check_random_state(self.random_state)
        given: Any = self.random_state
        return int(given if isinstance(given, numbers.Integral) else generator.randint(np.iinfo(np.int32).max))

    def _settings(self, seed: int) -> FitSettings:
        """Return the parameters, checked; errors name the parameter."""
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
        """Return parameters and options; bins and dropout that are None are left to the network."""
        more = getattr(self, options)
        more = {} if more is None else more
        if not isinstance(more, Mapping):
            raise ArgumentError.of(options, repr(more), "a dict of settings, or None")
        for name in names:
            if name in more:
                raise ArgumentError(f"{name} is a parameter. Pass {name}={more[name]!r}, not {options}.")
        given = {name: getattr(self, name) for name in names}
        left = {name for name in ("bins", "dropout") if getattr(self, name) is None}
        return {name: plain_settings(value) for name, value in {**given, **more}.items() if name not in left}
