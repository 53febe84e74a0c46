"""Scikit-learn's checks of SquadClassifier, with a network that does not sample."""

from collections.abc import Callable

from sklearn.utils.estimator_checks import parametrize_with_checks

from squad import SquadClassifier


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [SquadClassifier("mlp", hidden=(16,), max_epochs=10, batch_size=16, lr=0.02, device="cpu")]
)
def test_scikit_learn_checks(estimator: SquadClassifier, check: Callable[[SquadClassifier], None]) -> None:
    check(estimator)
