"""Sampling modes and numbers of samples T, and when each suits."""

from collections.abc import Mapping
from pathlib import Path

from docs.performance.records import read, sampling_key

#: The library's default: sampling mode and number of samples.
DEFAULT = ("stratified", 8)
#: Records and names of the devices.
DEVICES = {"cpu": "two CPU cores", "cuda": "a GPU"}


def recommendation(results: Path | None = None) -> str:
    """Say when the default, the fastest setting that ranks as well as the best one, and the best one suit.

    "As well" means that the AURC is within one standard deviation between networks, less than another seed would
    change it.
    """
    aurc = {sampling_key(entry): entry["each"]["aurc"] for entry in read("fashion_mnist-cuda", results).results["ways"]}
    best = min(aurc, key=lambda key: aurc[key]["mean"])
    good = [key for key, one in aurc.items() if one["mean"] <= aurc[best]["mean"] + aurc[best]["std"]]
    times = {
        device: {
            sampling_key(entry): entry["seconds"]["median"]
            for entry in read(f"fashion_mnist-{device}", results).results["ways"]
        }
        for device in DEVICES
    }
    fastest = {device: min(good, key=lambda key: times[device][key]) for device in DEVICES}
    lines = []
    for key in dict.fromkeys((DEFAULT, *fastest.values(), best)):
        reasons = ["is the default and suits most uses"] if key == DEFAULT else []
        if devices := [name for device, name in DEVICES.items() if fastest[device] == key]:
            where = " and on ".join(devices)
            reasons.append(f"is, on {where}, the fastest that ranks rows as well as the best, up to chance")
        if key == best:
            reasons.append("ranks rows best and suits if time does not matter")
        slower = [
            f"{times[device][key] / times[device][DEFAULT]:.1f} times on {name}" for device, name in DEVICES.items()
        ]
        time = "" if key == DEFAULT else f"; time relative to the default: {', '.join(slower)}"
        lines.append(
            f"- `{key[0]}` with T = {key[1]} {'; it '.join(reasons)}: AURC x 1000 of {_mean(aurc[key])}{time}."
        )
    return "\n".join(lines)


def _mean(spread: Mapping[str, float]) -> str:
    return f"{1000 * spread['mean']:.2f} ± {1000 * spread['std']:.2f}"
