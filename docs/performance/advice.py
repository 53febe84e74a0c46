"""Which T to take."""

from collections.abc import Mapping
from pathlib import Path

from docs.performance.records import read, sampling_way


def advice_lines(results: Path | None = None) -> str:
    """Which T to take: of the ways that rank as well as the best, the quickest.

    "As well" is within one standard deviation between networks: less than another seed would change.
    """
    quality = {sampling_way(way): way["each"]["aurc"] for way in read("fashion_mnist-cuda", results).results["ways"]}
    best = min(quality, key=lambda way: quality[way]["mean"])
    margin = quality[best]["std"]
    good = [way for way, aurc in quality.items() if aurc["mean"] <= quality[best]["mean"] + margin]
    lines = []
    for device, place in (("cpu", "two CPU cores"), ("cuda", "a GPU")):
        times = {sampling_way(way): way["seconds"] for way in read(f"fashion_mnist-{device}", results).results["ways"]}
        sampling, samples = quick = min(good, key=lambda way: times[way]["median"])
        more = times[best]["median"] / times[quick]["median"]
        lines.append(
            f"- **On {place} take `{sampling}` with T = {samples}**: AURC x 1000 of {_mean(quality[quick])}; "
            f"the best, `{best[0]}` with T = {best[1]}, has {_mean(quality[best])} and takes {more:.1f} times as long."
        )
    return "\n".join(lines)


def _mean(found: Mapping[str, float]) -> str:
    return f"{1000 * found['mean']:.2f} ± {1000 * found['std']:.2f}"
