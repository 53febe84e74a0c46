"""Ablation of the spacing of bins, the prior and learned values, about which the paper claims nothing."""

import statistics

from experiments.paper.pages.comparison import IMPROVEMENT_SIGN
from experiments.paper.pages.markdown import MEASURES, format_interval, full_heading, t_interval, table
from experiments.paper.row_results import Variant
from experiments.paper.sources import Sources

__all__ = ["ablation"]

#: Settings varied in the ablation.
ABLATION_SETTINGS = ("spacing", "prior", "learn_values")
#: Comparisons of the ablation: index of the setting, two values, description.
CONTRASTS = (
    (0, "gaussian", "linear", "Gaussian minus linear spacing"),
    (1, "gaussian", "uniform", "Gaussian minus uniform prior"),
    (2, "per_layer", "fixed", "values learned per layer minus fixed values"),
    (2, "per_neuron", "fixed", "values learned per neuron minus fixed values"),
)
#: Measures compared.
ABLATION_MEASURES = ("coverage@0.01", "coverage@0.02", "nll")


def ablation(sources: Sources) -> str:
    """Return a section about the ablation; "" without records."""
    grid = sources.grid("figures", "ablation")
    if grid is None:
        return ""
    by_setting = {
        tuple(variant.record.settings["fit"]["network"][name] for name in ABLATION_SETTINGS): variant
        for variant in grid
    }
    comparisons = len(CONTRASTS) * len(ABLATION_MEASURES)
    rows = []
    for index, one, other, words in CONTRASTS:
        cells, verdicts = [], []
        for measure in ABLATION_MEASURES:
            gains = _contrast(by_setting, index, (one, other), measure)
            cells.append(format_interval(gains, measure))
            middle, half = t_interval(gains, comparisons)
            if abs(middle) > half:
                better = IMPROVEMENT_SIGN[measure] * middle > 0
                verdicts.append(f"{'better' if better else 'worse'} {MEASURES[measure]}")
        rows.append([words, *cells, ", ".join(verdicts) or "inconclusive"])
    return "\n\n".join(
        [
            "## Spacing, prior and learned values",
            "The paper gives its best settings only, and no claim follows from them. Means over the other settings, "
            "paired by seed, each with a 95 % interval. A setting is better or worse if 0 is outside the interval that "
            f"holds jointly for all {comparisons} comparisons (Bonferroni):",
            table(["", *map(full_heading, ABLATION_MEASURES), "verdict"], rows),
        ]
    )


def _contrast(
    by_setting: dict[tuple[str, ...], Variant], index: int, pair: tuple[str, str], measure: str
) -> list[float]:
    """Return one value of a setting minus another, per seed, averaged over the values of the other settings."""
    differences = []
    for key, one in by_setting.items():
        if key[index] == pair[0]:
            other = by_setting[(*key[:index], pair[1], *key[index + 1 :])]
            differences.append(one.paired_differences(other, measure))
    return [statistics.fmean(each) for each in zip(*differences, strict=True)]
