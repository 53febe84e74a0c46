"""The paper's claims about networks without batch normalization: from records alone."""

import statistics

from experiments.paper.pages.claim import Claim, judge, untested
from experiments.paper.pages.comparison import COMPARED_MEASURES
from experiments.paper.pages.grids import first_mode_mean
from experiments.paper.pages.markdown import format_value, full_heading, table
from experiments.paper.pages.result_tables import NOT_RUN
from experiments.paper.sources import Sources
from squad.records import Record

__all__ = ["depth", "spread"]

#: Maximum ratio of the largest to the smallest standard deviation of layers that counts as within bounds.
MAX_SPREAD_RATIO = 1.5
#: A network counts as no worse than others if its accuracy and coverage are less than this below the best.
DEPTH_TOLERANCE = 0.02
#: Number of hidden layers of the paper's networks.
PAPER_DEPTH = 2
#: Accuracy that requires having learned something about all ten classes.
MIN_LEARNED_ACCURACY = 0.8


def _by_depth(sources: Sources, grid: str) -> dict[int, Record]:
    """Return the records by number of hidden layers; none unless all eight exist."""
    found = {depth: sources.record(f"figures/{grid}/{'x'.join(['32'] * depth)}") for depth in range(1, 9)}
    return {depth: record for depth, record in found.items() if record is not None} if all(found.values()) else {}


def spread(sources: Sources) -> Claim:
    """Judge whether the outputs of all layers have a similar spread."""
    title = "SQUAD normalizes itself"
    grids = {"SQUAD": _by_depth(sources, "depth-squad"), "MLP": _by_depth(sources, "depth-mlp")}
    if not all(grids.values()):
        return untested(title, NOT_RUN)
    spreads = {
        f"{name} with 8 layers, {when} training": _layer_spreads(records[8], when)
        for name, records in grids.items()
        for when in ("before", "after")
    }
    after, control = (_ratio(spreads[f"{name} with 8 layers, after training"]) for name in ("SQUAD", "MLP"))
    # If the deepest networks do not learn, the deepest that do are judged as well.
    learned = [
        depth for depth, record in grids["SQUAD"].items() if first_mode_mean(record, "accuracy") > MIN_LEARNED_ACCURACY
    ]
    deepest = max(learned, default=8)
    if deepest < 8:
        spreads[f"SQUAD with {deepest} layers, the most that learned, after training"] = _layer_spreads(
            grids["SQUAD"][deepest], "after"
        )
    details = [
        f"{name}: {min(values):.2f} to {max(values):.2f}, {'within' if _is_bounded(values) else 'outside'} the bounds"
        for name, values in spreads.items()
    ]
    return Claim(
        title,
        judge(_is_bounded(values) for name, values in spreads.items() if name.startswith("SQUAD")),
        f"largest spread of a layer, relative to the smallest (MLP: {control:.1f})",
        f"{after:.1f}",
        details,
        "Standard deviations of the outputs of each layer are within bounds if the largest is less than "
        f"{MAX_SPREAD_RATIO:g} times the smallest. It holds if those of SQUAD are before and after training. A plain "
        "MLP, which constrains no output, is shown for comparison. A network has learned if its accuracy is above "
        f"{format_value(MIN_LEARNED_ACCURACY)} %.",
    )


def _is_bounded(values: list[float]) -> bool:
    return _ratio(values) < MAX_SPREAD_RATIO


def _ratio(values: list[float]) -> float:
    return max(values) / min(values)


def _layer_spreads(record: Record, when: str) -> list[float]:
    """Return the standard deviation of each hidden layer's outputs, averaged over the networks."""
    return [statistics.fmean(layer["std"]) for layer in record.results["probes"]["spread"][when][:-1]]


def depth(sources: Sources) -> Claim:
    """Judge how deep networks can be without batch normalization."""
    title = "Deep networks need no batch normalization"
    grids = {"SQUAD": _by_depth(sources, "depth-squad"), "Plain MLP": _by_depth(sources, "depth-mlp")}
    small_kl = _by_depth(sources, "depth-squad-light")
    if not all(grids.values()):
        return untested(title, NOT_RUN)
    if small_kl:
        grids["SQUAD with a ninth of the KL multiplier"] = small_kl
    rows, deepest = [], {}
    for name, records in grids.items():
        near = [True] * len(records)
        for measure in ("accuracy", *COMPARED_MEASURES):
            values = [first_mode_mean(record, measure) for record in records.values()]
            rows.append([f"{name}, {full_heading(measure)}", *(format_value(value) for value in values)])
            near = [one and value > max(values) - DEPTH_TOLERANCE for one, value in zip(near, values, strict=True)]
        deepest[name] = near.index(False) if False in near else len(near)
    return Claim(
        title,
        "holds" if deepest["SQUAD"] == 8 else "partly" if deepest["SQUAD"] > PAPER_DEPTH else "fails",
        f"layers without a loss (MLP: {deepest['Plain MLP']})",
        str(deepest["SQUAD"]),
        [f"{name}: no loss up to {count} layers" for name, count in deepest.items()],
        f"The paper names no depth; its networks have {PAPER_DEPTH} layers. There is no loss if accuracy and coverage "
        f"at 1 % and at 2 % are less than {format_value(DEPTH_TOLERANCE)} points below the best. It holds if there is "
        f"none with eight layers, and partly if there is none with more than {PAPER_DEPTH}. No network was run with "
        "batch normalization, plain MLPs included. Coverage at 1 % was added to the criterion after the results were "
        "known.",
        table(["layers", *map(str, range(1, 9))], rows),
    )
