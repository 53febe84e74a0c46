"""The paper's claims about latents, their distributions and activation functions: from records alone."""

import statistics

import numpy as np

from experiments.paper.pages.claim import Claim, judge, untested
from experiments.paper.pages.markdown import format_value
from experiments.paper.pages.result_tables import NOT_RUN
from experiments.paper.sources import Sources

__all__ = ["activation", "modes", "shapes"]

#: KL in nats below which a predicted distribution counts as near a shape.
NEAR_KL = 0.2
#: Minimum fraction that counts as common.
COMMON = 0.1
#: Minimum fraction of a layer's distributions near a shape for the shape to count as found.
FOUND = 0.001
#: Fraction of its range by which an activation function must fall after its maximum to count as peaked.
MIN_PEAK = 0.05


def modes(sources: Sources) -> Claim:
    """Judge whether predicted distributions have several modes."""
    title = "Predicted distributions are multimodal"
    record = sources.record("figures/latents")
    if record is None:
        return untested(title, NOT_RUN)
    layers = record.results["probes"]["stereotypes"]
    fractions = [sum(layer["modes"][1:]) for layer in layers]
    details = [
        f"layer {layer['layer']}: {format_value(fraction)} % of {layer['nearest'][0]['total']:,} have at least two "
        "modes with a prominence of .05"
        for layer, fraction in zip(layers, fractions, strict=True)
    ]
    return Claim(
        title,
        "holds" if min(fractions) > 0.5 else "partly" if min(fractions) > COMMON else "fails",
        "percentage with several modes, layer 1",
        format_value(fractions[0]),
        [*details, "one network"],
        f"It holds if more than half of the distributions of each layer have several modes, and partly if more than "
        f"{100 * COMMON:g} % have.",
    )


def shapes(sources: Sources) -> Claim:
    """Judge whether every typical shape occurs among the predicted distributions."""
    title = "The flexible distribution is used to its full advantage"
    record = sources.record("figures/latents")
    if record is None:
        return untested(title, NOT_RUN)
    largest: dict[str, float] = {}
    details = []
    for layer in record.results["probes"]["stereotypes"]:
        counts = []
        for shape in layer["nearest"]:
            share = shape["shares"][shape["thresholds"].index(NEAR_KL)]
            largest[shape["name"]] = max(largest.get(shape["name"], 0.0), share)
            counts.append(f"{round(share * shape['total']):,} near '{shape['name']}'")
        details.append(f"layer {layer['layer']}, of {layer['nearest'][0]['total']:,}: {', '.join(counts)}")
    found = [share >= FOUND for share in largest.values()]
    return Claim(
        title,
        judge(found),
        "shapes found",
        f"{sum(found)} of {len(found)}",
        [*details, "one network; the shapes are ours, and the distances and weights of several peaks are fixed"],
        "It holds if every shape of the paper's figure 7 is found. A shape is found if at least 1 "
        f"in {1 / FOUND:,.0f} distributions of a layer is within a KL of {NEAR_KL:g} nats of it.",
    )


def activation(sources: Sources) -> Claim:
    """Judge whether learned activation functions have a peak."""
    title = "Learned activation functions are peaked sigmoids"
    record = sources.record("figures/activation")
    if record is None:
        return untested(title, NOT_RUN)
    falls = []
    for unit in record.results["probes"]["activation"]["others"]:
        values = np.array(unit["mean"])
        span = float(values.max() - values.min())
        fall = max(float(values.max() - values[-1]), float(values[0] - values.min()))
        falls.append(fall / span if span > 0 else 0.0)
    peaked = sum(fall > MIN_PEAK for fall in falls)
    fraction = peaked / len(falls)
    return Claim(
        title,
        "holds" if fraction > 0.5 else "partly" if fraction > COMMON else "fails",
        "units with a peak",
        f"{peaked} of {len(falls)}",
        [
            f"the largest fall is {format_value(max(falls))} % of a unit's range, the median "
            f"{format_value(statistics.median(falls))} %",
            "one network",
        ],
        f"A unit has a peak if its expected value falls after its maximum, or before its minimum, by more than "
        f"{format_value(MIN_PEAK)} % of its range. It holds if most units have one, and partly if more than "
        f"{100 * COMMON:g} % have.",
    )
