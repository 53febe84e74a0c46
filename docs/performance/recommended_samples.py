"""The recommended sampling mode and number of samples T."""

from collections.abc import Mapping
from pathlib import Path

from docs.performance.records import read, sampling_key


def recommendation(results: Path | None = None) -> str:
    """Recommend the fastest of the settings (sampling mode and T) that rank as well as the best one.

    "As well" means that the AURC is within one standard deviation between networks, less than another seed would
    change it.
    """
    aurc = {sampling_key(entry): entry["each"]["aurc"] for entry in read("fashion_mnist-cuda", results).results["ways"]}
    best = min(aurc, key=lambda key: aurc[key]["mean"])
    margin = aurc[best]["std"]
    good = [key for key, one in aurc.items() if one["mean"] <= aurc[best]["mean"] + margin]
    lines = []
    for device, name in (("cpu", "two CPU cores"), ("cuda", "a GPU")):
        entries = read(f"fashion_mnist-{device}", results).results["ways"]
        times = {sampling_key(entry): entry["seconds"] for entry in entries}
        sampling, samples = fastest = min(good, key=lambda key: times[key]["median"])
        slowdown = times[best]["median"] / times[fastest]["median"]
        lines.append(
            f"- **On {name}, use `{sampling}` with T = {samples}**: AURC x 1000 of {_mean(aurc[fastest])}; "
            f"the best, `{best[0]}` with T = {best[1]}, has {_mean(aurc[best])} and takes {slowdown:.1f} times as long."
        )
    return "\n".join(lines)


def _mean(spread: Mapping[str, float]) -> str:
    return f"{1000 * spread['mean']:.2f} ± {1000 * spread['std']:.2f}"
