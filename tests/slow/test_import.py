"""What is not imported until it is needed: modules beyond those that everybody imports."""

from tests.test_import import HEAVY, modules_after


def test_modules_that_come_with_the_package() -> None:
    assert {"squad.core", "squad.layers", "squad.ops"} <= modules_after(
        "import squad; squad.core, squad.layers, squad.ops"
    )


def test_a_predictor_is_light_too() -> None:
    # What only answers on arrays has no use for scikit-learn.
    assert not set(HEAVY) & modules_after("import squad; squad.load, squad.Predictor") - modules_after("import torch")


def test_figures_need_matplotlib_when_they_are_drawn() -> None:
    assert "matplotlib" not in modules_after(
        "import squad.analysis.latent_figures, experiments.paper.drawings.paper_figures"
    )
