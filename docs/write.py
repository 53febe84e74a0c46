"""Write what the pages show from what the code does and what was measured.

README.md: the output of `squad demo`; docs/images/latent.png: a few latents of its network; docs/prediction.md: the
table of ways to sample, from the records in benchmarks/results; docs/selection.md: what certificates cover and whether
they hold, from records; docs/performance.md: claims, tables and pictures, from records (docs/performance);
docs/settings.md: the settings, from their classes; docs/search.md: what populations are worth, from records;
experiments/paper: its pages and figures, from the records there.
"""

import dataclasses
import inspect
import io
import json
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

import squad
from docs import performance
from experiments.paper import pipeline
from squad.cli import demo
from squad.data.array_transform import ArrayTransform
from squad.data.images import ImageSet, load_images
from squad.models import CONFIGS, NetworkConfig
from squad.predictor import Predictor
from squad.records import Record
from squad.search import search_record, summary
from squad.train import TrainConfig

TITLES = ("nearly sure", "between two values", "between three")
ROOT = Path(__file__).resolve().parents[1]


def between(page: Path, name: str, text: str) -> None:
    """Replace what stands between the markers called ``name``."""
    block = f"<!-- {name}: begin -->\n{text}\n<!-- {name}: end -->"
    pattern = rf"<!-- {name}: begin -->.*<!-- {name}: end -->"
    changed, count = re.subn(pattern, lambda _: block, page.read_text(encoding="utf-8"), flags=re.S)
    assert count == 1, f"{page} has lost its markers"
    page.write_text(changed, encoding="utf-8")


def demo_output(digits: ImageSet, predictors: dict[str, Predictor]) -> str:
    """What `squad demo` prints after training."""
    stream = io.StringIO()
    demo.compare(digits, predictors, stream)
    demo.least_sure(digits, predictors["squad"], stream)
    demo.certified(digits, predictors["squad"], stream)
    return "```text\n" + "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n```"


def most_modes(q: squad.Quantized) -> list[tuple[int, int]]:
    """(row, latent) of the posteriors to show: for 0, 1 and 2 the one whose modes 2, 3, ... are largest."""
    padded = torch.nn.functional.pad(q.probs, (1, 1))
    peak = (padded[..., 1:-1] > padded[..., :-2]) & (padded[..., 1:-1] > padded[..., 2:])
    heights = torch.where(peak, q.probs, 0).sort(-1, descending=True).values
    found = []
    for modes in (1, 2, 3):
        score = heights[..., modes - 1] - (heights[..., modes] if modes < 3 else 0)
        score = torch.where(score.isfinite() & (heights[..., 0] < 0.75), score, -1)
        found.append(divmod(int(score.argmax()), score.shape[1]))
    return found


@torch.no_grad()
def picture(digits: ImageSet, predictor: Predictor) -> None:
    """Three latents of the first layer for three digits: their distributions, relaxed samples, their mean."""
    layer = next(iter(squad.unstack(predictor.network)[0].stages)).layer
    assert isinstance(layer, squad.SquadLinear)
    assert isinstance(predictor.transform, ArrayTransform)
    q = layer.posterior(torch.from_numpy(predictor.transform.apply(digits.x_test).x))
    figure = plt.figure(figsize=(9.5, 2.7), layout="constrained")
    grid = figure.add_gridspec(1, 6, width_ratios=[0.42, 1] * 3)
    for column, (row, latent) in enumerate(most_modes(q)):
        small = figure.add_subplot(grid[2 * column])
        small.imshow(digits.x_test[row], cmap="gray_r")
        small.set_axis_off()
        one = squad.Quantized(q.logits[row, latent], q.values)
        top = float(one.probs.max())
        torch.manual_seed(column)
        samples = one.relaxed((1000,), temperature=0.5)
        axis = figure.add_subplot(grid[2 * column + 1])
        axis.bar(one.values, one.probs, 0.13, color="#1b6ca8", label="probability")
        height = -top * (0.08 + 0.1 * torch.rand(1000))
        axis.plot(samples, height, ".", color="#c0562f", markersize=1, label="1,000 samples")
        axis.axvline(float(one.mean), color="#444444", linewidth=1, linestyle=":", label="mean")
        axis.set(xlabel=f"value of latent {latent}", yticks=[], xlim=(-3.9, 3.9), title=TITLES[column])
        axis.spines[["top", "right", "left"]].set_visible(False)
        if column == 0:
            axis.legend(frameon=False, fontsize="small", markerscale=8, loc="upper right")
    figure.savefig(ROOT / "docs" / "images" / "latent.png", dpi=150)


def ways(gpu: Record, cpu: Record) -> str:
    """The ways to sample, beside each other: quality over the GPU's ten networks, time on both machines."""
    risks = (0.005, 0.01, 0.02)
    heads = ["sampling", "T", "accuracy", "NLL", "AURC x 1000", *(f"coverage at {100 * r:g} %" for r in risks)]
    times = {(way["sampling"], way["samples"]): way["seconds"]["median"] for way in cpu.results["ways"]}
    lines = [[*heads, "two CPU cores, ms", "GPU, ms"], ["---"] * (len(heads) + 2)]
    for way in gpu.results["ways"]:
        each = way["each"]
        lines.append(
            [
                way["sampling"],
                str(way["samples"]),
                f"{100 * each['accuracy']['mean']:.2f} %",
                f"{each['nll']['mean']:.3f}",
                f"{1000 * each['aurc']['mean']:.2f} ± {1000 * each['aurc']['std']:.2f}",
                *(f"{100 * each[f'coverage@{risk}']['mean']:.1f} %" for risk in risks),
                f"{1000 * times[way['sampling'], way['samples']]:.0f}",
                f"{1000 * way['seconds']['median'] / gpu.settings['members']:.1f}",
            ]
        )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def table(lines: list[list[str]]) -> str:
    """Rows, the first of which are headings, as Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], ["---"] * len(lines[0]), *lines[1:]])


def coverage(record: Record, population: str = "well ranked") -> str:
    """What each method accepts on well-ranked scores."""
    sizes, targets, methods = (record.settings[name] for name in ("sizes", "targets", "methods"))
    cells = {(cell["m"], cell["target"]): cell for cell in record.results if cell["population"] == population}
    lines = [["method", *(f"m = {m:,}" for m in sizes)]]
    oracle = " / ".join(f"{100 * cells[sizes[0], target]['oracle']:.0f}" for target in targets)
    lines.append(["the most that keeps the target", *[oracle] * len(sizes)])
    for name in methods:
        shown = [
            " / ".join(f"{100 * cells[m, target]['methods'][name]['coverage']:.0f}" for target in targets)
            for m in sizes
        ]
        called, _, way = name.partition(", ")
        lines.append([f"`{called}`" + (f", {way}" if way else ""), *shown])
    return table(lines)


def overconfident(record: Record) -> str:
    """The same on overconfident scores."""
    return coverage(record, "overconfident at the top")


def several_harms(record: Record) -> str:
    """Coverage with delta divided between harms, and with all of it for each."""
    lines = [["harms", "m", "delta divided between harms", "the full delta for each"]]
    for one in record.settings["several_harms"]:
        shown = [
            f"{100 * one[way]['coverage']:.1f} ± {100 * one[way]['coverage_error']:.1f} %"
            for way in ("divided", "full")
        ]
        lines.append([str(one["harms"]), f"{one['m']:,}", *shown])
    return table(lines)


def validity(record: Record) -> str:
    """For each method and population the worst cell: false certificates seen, and allowed."""
    methods = list(dict.fromkeys(cell["method"] for cell in record.results))
    lines = [["population", *(f"`{name}`" for name in methods)]]
    for population in dict.fromkeys(cell["population"] for cell in record.results):
        shown = []
        for name in methods:
            cells = [cell for cell in record.results if (cell["method"], cell["population"]) == (name, population)]
            worst = max(cells, key=lambda cell: cell["violations"] / cell["delta"])
            mark = "" if worst["proven"] else " *"
            alarm = "" if all(cell["verdict"].startswith("held") for cell in cells) else " **too many**"
            shown.append(f"{100 * worst['violations']:.2f} of {100 * worst['delta']:g} %{mark}{alarm}")
        lines.append([population, *shown])
    count = len(record.results)
    held = all(cell["verdict"].startswith("held") for cell in record.results)
    note = (
        f"{count} cells, {record.settings['repetitions']:,} samples each; "
        + ("none" if held else "**some**")
        + f" was above its delta by an exact binomial test at .001 / {count}."
    )
    return f"{table(lines)}\n\n\\* tested, not proven. {note}"


def recalibrated(record: Record) -> str:
    """Before and after, for each network and way."""
    lines = [["network", "", "NLL", "ECE", "AURC x 1000", "reordered"]]
    for one in record.results:
        way = "before" if one["way"] == "raw" else one["way"].replace("softmax", "softmax, Guo et al.:")
        shown = [
            f"{one['nll']:.4f}",
            f"{100 * one['ece']:.2f} %",
            f"{1000 * one['aurc']:.2f}",
            f"{100 * one['moved']:.0f} %",
        ]
        lines.append([one["network"], way, *shown])
    return table(lines)


def recalibrated_few(record: Record) -> str:
    """What recalibration on few rows does to the true NLL: before this was guarded, and now."""
    lines = [["logits too large", "rows", "worse, before", "now", "unchanged", "NLL gained, before", "now", "at most"]]
    cells = {(one["scale"], one["n"], one["way"]): one for one in record.results}
    for scale in record.settings["scales"]:
        for n in record.settings["sizes"]:
            old, new = cells[scale, n, "before"], cells[scale, n, "temperature"]
            shares = [f"{100 * share:.0f} %" for share in (old["worse"], new["worse"], new["unchanged"])]
            gains = [f"{round(one['gain'], 4) + 0.0:.4f}" for one in (old, new)]
            name = "by nothing (calibrated)" if scale == 1 else f"{scale:g} times"
            lines.append([name, f"{n:,}", *shares, *gains, f"{new['most']:.4f}"])
    return table(lines)


def covered(record: Record) -> str:
    """How often intervals cover the truth: percentiles, what is used, and what of it is not called approximate."""
    sizes = sorted({one["n"] for one in record.results})
    cells = {(one["metric"], one["n"], one["rate"]): one for one in record.results}
    lines = [["metric", "errors", *(f"n = {n:,}" for n in sizes)]]
    for name in dict.fromkeys(one["metric"] for one in record.results):
        for rate in record.settings["rates"]:
            shown = []
            for n in sizes:
                one = cells.get((name, n, rate))
                if one is None:
                    shown.append("")
                    continue
                mark = " ~" if one["flagged"] > 0.5 else ""
                shown.append(f"{100 * one['before']:.1f} → {100 * one['after']:.1f}{mark}")
            lines.append([f"`{name}`", f"{100 * rate:g} %", *shown])
    samples = [one["defined"] for one in record.results]
    note = f"{min(samples):,} to {max(samples):,} samples per cell, {record.settings['repeats']} resamples each."
    return f"{table(lines)}\n\n{note}"


def dependent(record: Record) -> str:
    """False certificates with all rows of a group, and with one."""
    lines = [["rows per group", "groups", "false certificates, all rows", "one row per group"]]
    for one in record.results["groups"]:
        shown = [f"{100 * one[name]:.1f} %" for name in ("all rows", "one")]
        lines.append([str(one["rows"]), f"{one['groups']:,}", *shown])
    return table(lines)


def honest(record: Record) -> str:
    """Honest calibration sets that are refused."""
    lines = [["kinds of rows", "training, validation, calibration", "refused by a binomial test", "by the test used"]]
    for one in record.results["tables"]:
        shown = [f"{100 * one[name]:.1f} %" for name in ("binomial", "used")]
        kinds = f"{one['kinds']:,}" + (", some more frequent" if one["power"] else "")
        lines.append([kinds, ", ".join(f"{size:,}" for size in one["sizes"]), *shown])
    return table(lines)


def copies(record: Record) -> str:
    """Sets with near copies that are found, before and after; a row per change and share of copies."""
    found = record.results["copies"]
    every = sorted({one["features"] for one in found})
    lines = [["change", "copies", *(f"{count} features" if count > 1 else "1 feature" for count in every)]]
    for change, share in dict.fromkeys((one["change"], one["share"]) for one in found):
        cells = {one["features"]: one for one in found if (one["change"], one["share"]) == (change, share)}
        shown = [f"{100 * cells[count]['before']:.0f} → {100 * cells[count]['after']:.0f} %" for count in every]
        lines.append([change, f"{100 * share:.0f} %", *shown])
    return table(lines)


def risks(record: Record) -> str:
    """True risks of what was certified on near copies, before and after."""
    lines = [["features", "change", "copies", "certified, before", "true risk", "certified, after", "true risk"]]
    for one in record.results["risks"]:
        shown = []
        for when in ("before", "after"):
            true = [risk for risk in one[when] if risk is not None]
            span = f"{100 * min(true):.1f} to {100 * max(true):.1f} %" if true else ""
            shown += [f"{len(true)} of {len(one[when])}", span]
        lines.append([str(one["features"]), one["change"], f"{100 * one['share']:.0f} %", *shown])
    return table(lines)


def repeating(record: Record) -> str:
    """Copies among rows that repeat each other, in a sentence."""
    cells = record.results["repeating"]
    sets = record.settings["runs"] * len(cells)
    found = round(sum(one["after"] for one in cells) * record.settings["runs"])
    names = ", ".join(dict.fromkeys(one["table"] for one in cells))
    return (
        "Copies are found as well where the calibration rows repeat each other, which honest rows of such tables hardly"
        " ever do: training rows drawn with replacement (a third or 95 % of the set), or once each among new rows of"
        f" which 8 or 30 occur twice. In tables with {names}: in {found:,} of {sets:,} sets."
    )


def removed(record: Record) -> str:
    """Honest sets that are refused, and rows that are left out, by exact hashes alone and now."""
    lines = [["table", "fit, calibration", "refused", "rows left out", "equals removed: refused", "rows left out"]]
    found = record.results["honest"]
    for one in (one for one in found if not one["distinct"]):
        key = one["table"], one["sizes"]
        other = next(two for two in found if two["distinct"] and (two["table"], two["sizes"]) == key)
        shown = [
            f"{100 * each[f'{what}before']:.1f} → {100 * each[f'{what}after']:.1f} %"
            for each in (one, other)
            for what in ("", "left out ")
        ]
        lines.append([one["table"], ", ".join(f"{size:,}" for size in one["sizes"]), *shown])
    sets = record.settings["sets"]
    refused = [round(sets * sum(one[when] for one in found)) for when in ("before", "after")]
    text = f"In all {refused[0]:,} → {refused[1]:,} of {sets * len(found):,} sets are refused ({sets} per cell)."
    return f"{table(lines)}\n\n{text}"


def behind(record: Record) -> str:
    """Where the default accepts less than a single sequence, at worst."""
    lines = [["population", "m", "target", "points behind `fixed_sequence`, at worst"]]
    for name in record.settings["populations"]:
        cells = [cell for cell in record.results if cell["population"] == name]
        worst = min(cells, key=lambda cell: cell["methods"]["fixed_sequence"]["default_ahead"])
        single = worst["methods"]["fixed_sequence"]
        shown = f"{-100 * single['default_ahead']:.2f} ± {100 * single['default_ahead_error']:.2f}"
        lines.append([name, f"{worst['m']:,}", f"{100 * worst['target']:g} %", shown])
    return table(lines)


def bets(record: Record) -> str:
    """Labels that tests of costs take where these are 0 and 1."""
    lines = [["risk", "error rate", "exact binomial", "betting", "Hoeffding-Bentkus"]]
    for one in record.results["labels"]:
        shown = [f"{one[name]:,} ({one[name] / one['exact']:.2f})" for name in ("bets", "hoeffding-bentkus")]
        rates = [f"{100 * one['risk']:g} %", f"{100 * one['risk'] * one['share']:.3g} %"]
        lines.append([*rates, f"{one['exact']:,}", *shown])
    return table(lines)


def samples(record: Record) -> str:
    """Miss rates, costs, weights and strata: false certificates and coverage, before and after."""
    lines = [["", "population", "m", "false, before", "false, after", "coverage, before", "coverage, after"]]
    cells = {(one["subject"], one["population"], one["way"]): one for one in record.results["cells"]}
    for subject, population, way in cells:
        if way == "before":
            before, after = (cells[subject, population, which] for which in ("before", "after"))
            shown = [f"{100 * one[name]:.1f} %" for name in ("violations", "coverage") for one in (before, after)]
            lines.append([subject, population, f"{before['m']:,}", *shown])
    return table(lines)


def planned(record: Record) -> str:
    """What plan says, and how often it comes true."""
    lines = [["risk", "errors", "coverage", "method", "labels", "stated", "simulated", "ranked", "before", "simulated"]]
    for one in record.results["cells"]:
        shown = [f"{100 * one[name]:.1f} %" for name in ("stated", "simulated", "ranked")]
        old = [f"{one['before']['m']:,}", f"{100 * one['before']['simulated']:.0f} %"]
        shares = [f"{100 * one['risk']:g} %", f"{100 * one['error']:g} %", f"{100 * one['coverage']:g} %"]
        lines.append([*shares, f"`{one['method']}`", f"{one['m']:,}", *shown, *old])
    pilots = [["risk", "coverage", "method", "labels", "stated", "simulated"]]
    for one in record.results["pilots"]:
        shown = [f"{100 * one[name]:.1f} %" for name in ("stated", "simulated")]
        shares = [f"{100 * one[name]:g} %" for name in ("risk", "coverage")]
        pilots.append([*shares, f"`{one['method']}`", f"{one['m']:,}", *shown])
    every = [*record.results["cells"], *record.results["pilots"]]
    apart = max(abs(one["stated"] - one["simulated"]) for one in every)
    return (
        f"{table(lines)}\n\nFrom a pilot of {record.settings['pilot']:,} cases, for cases drawn from it:\n\n"
        f"{table(pilots)}\n\nStated and simulated are at most {100 * apart:.1f} points apart."
    )


def again(record: Record) -> str:
    """False certificates of those who certify until it succeeds."""
    lines = [["rows of the next attempt", "all of delta each time", "shares of delta"]]
    for one in record.results["false"]:
        lines.append([one["rows"], *(f"{100 * one[name]:.1f} %" for name in ("before", "after"))])
    return table(lines)


def shares(record: Record) -> str:
    """Coverage of the first attempts."""
    lines = [["m", "target", "all of delta", "attempt 1", "attempt 2", "attempt 3"]]
    for one in record.results["coverage"]:
        shown = [f"{100 * one[name]:.1f} %" for name in ("only", "1", "2", "3")]
        lines.append([f"{one['m']:,}", f"{100 * one['target']:g} %", *shown])
    return table(lines)


def speed(record: Record) -> str:
    """Times in sorts of the same numbers."""
    names = ("aurc", "augrc", "certify")
    lines = [["confidences", *(f"`{name}`, in sorts" for name in names)]]
    for case in record.results:
        shown = [case["sorts"][name] for name in names]
        lines.append(
            [case["confidence"], *(f"{one['median']:.1f} ({one['q25']:.1f} to {one['q75']:.1f})" for one in shown)]
        )
    return table(lines)


def described(config: type) -> dict[str, str]:
    """What the docstrings of a class of settings, and of those it builds on, say of each."""
    found: dict[str, str] = {}
    for part in reversed(config.__mro__):
        doc = inspect.cleandoc(part.__dict__.get("__doc__") or "")
        for name, text in re.findall(r"^ {4}(\w[\w, ]*): (.*(?:\n {8}.*)*)", doc.partition("Attributes:")[2], re.M):
            for one in name.split(", "):
                found[one] = " ".join(text.split()).replace("None: ", "Left out: ")
    return found


def settings_of(config: type, skip: tuple[str, ...] = ()) -> str:
    """A table of settings with their defaults."""
    texts = described(config)
    lines = ["| setting | default | |", "| --- | --- | --- |"]
    for field in dataclasses.fields(config):
        if field.name not in skip:
            default = list(field.default) if isinstance(field.default, tuple) else field.default
            shown = "" if default is None else json.dumps(default)
            lines.append(f"| `{field.name}` | {shown and f'`{shown}`'} | {texts[field.name]} |")
    return "\n".join(lines)


def all_settings() -> str:
    """docs/settings.md between its markers."""
    shared = tuple(field.name for field in dataclasses.fields(NetworkConfig))
    parts = ["### `[training]`", settings_of(TrainConfig), "### `[network]`, all", settings_of(NetworkConfig)]
    for name, config in CONFIGS.items():
        own = [field for field in dataclasses.fields(config) if field.name not in shared]
        changed = [
            f"`{field.name}` is `{json.dumps(field.default)}`"
            for field, base in zip(dataclasses.fields(config), dataclasses.fields(NetworkConfig), strict=False)
            if field.default != base.default
        ]
        ways = ", ".join(f"`{way}`" for way in config.samplings)
        parts.append(f"### `[network]`, `{name}`")
        if own:
            parts.append(settings_of(config, shared))
        many = f", {config.num_samples} times unless told otherwise" if config.num_samples > 1 else ""
        note = f"Sampled by {ways}{' (the first is the default)' if ',' in ways else ''}{many}."
        parts.append((f"By default {', '.join(changed)}. " if changed else "") + note)
    return "\n\n".join(parts)


def novelty(record: Record) -> str:
    """What is caught of rows unlike the training rows, and how many honest ones are referred."""
    found = record.results["summary"]
    mistakes = list(next(iter(found.values()))["caught"])
    lines = [["rows referred, %", "honest", "worst table", *mistakes]]
    for rule, one in found.items():
        caught = (f"{100 * share:.0f}" for share in one["caught"].values())
        lines.append([rule, f"{100 * one['honest']:.2f}", f"{100 * one['worst']:.2f}", *caught])
    bare, checked = record.results["network"].values()
    text = (
        f"Means over {record.settings['tables']} tables. On scikit-learn's breast cancer table, a network certified at"
        f" {100 * record.settings['risk']:g} % risk and one column at a time multiplied by 1,000: without the check"
        f" {100 * bare['accepted']:.1f} % of these rows are accepted (mean over the columns), and with the worst column"
        f" {100 * bare['worst column errors among accepted']:.0f} % of the accepted are wrong; with it"
        f" {100 * checked['accepted']:.1f} % are accepted. Of honest rows {100 * bare['honest accepted']:.1f} and"
        f" {100 * checked['honest accepted']:.1f} % are accepted."
    )
    counts = list(next(iter(next(iter(record.results["few_rows"].values())).values())))
    few = [["honest rows referred, %", "", *(f"{int(count):,} training rows" for count in counts)]]
    for name, of in record.results["few_rows"].items():
        for rule, by in of.items():
            few.append([name, rule, *(f"{100 * by[count]['honest']:.2f}" for count in counts)])
    heavy = record.results["few_rows"]["log-normal, sigma 2"]
    before, after = (100 * of[counts[0]]["one column x 1000"] for of in heavy.values())
    tails = (
        f"{record.settings['few_columns']} independent columns of one distribution, with and without the extrapolation"
        " of tails. How tails are extrapolated was chosen among several ways on these same distributions. It has a"
        f" price: of log-normal columns with sigma 2, learned from {counts[0]} rows, {after:.0f} % of the rows with one"
        f" column x 1000 are referred, and {before:.0f} % without the extrapolation. Tails as heavy as Cauchy's are"
        " heavier than it assumes."
    )
    return f"{table(lines)}\n\n{text}\n\n{table(few)}\n\n{tails}"


def selection_tables() -> dict[str, str]:
    """What stands between the markers of docs/selection.md, by their names."""
    results = ROOT / "benchmarks" / "results"
    made = (
        ("coverage", coverage, "certify_coverage"),
        ("overconfident", overconfident, "certify_coverage"),
        ("harms", several_harms, "certify_coverage"),
        ("validity", validity, "certify_validity"),
        ("speed", speed, "metrics_speed-cpu"),
        ("recalibration", recalibrated, "recalibration-cuda"),
        ("few rows", recalibrated_few, "recalibration_rows"),
        ("intervals", covered, "intervals"),
        ("behind", behind, "certify_coverage"),
        ("dependent", dependent, "calibration_rows"),
        ("honest", honest, "calibration_rows"),
        ("copies", copies, "leakage"),
        ("risks", risks, "leakage"),
        ("repeating", repeating, "leakage"),
        ("removed", removed, "leakage"),
        ("bets", bets, "certify_samples"),
        ("samples", samples, "certify_samples"),
        ("plan", planned, "plan_power"),
        ("again", again, "attempts"),
        ("shares", shares, "attempts"),
    )
    return {name: write(Record.load(results / f"{record}.json")) for name, write, record in made}


def write_selection() -> None:
    """docs/selection.md between its markers."""
    for name, text in selection_tables().items():
        between(ROOT / "docs" / "selection.md", name, text)


def populations() -> str:
    """How long trials take together and one at a time."""
    study = search_record.read(ROOT / "experiments" / "paper" / "search" / "fashion-mnist" / "squad")
    record = Record.load(ROOT / "benchmarks" / "results" / "search_population.json")
    together, alone = record.results["together"], record.results["alone"]
    taken = summary.time_text(study.seconds())
    return (
        f"On one {record.machine['gpu']}, {len(study.measured)} trials of SQUAD 2 x 32 on Fashion-MNIST took {taken} "
        f"([experiments/paper](../experiments/paper/search.md)). The first {together['trials']} of them, in "
        f"{record.settings['slots']} slots, took {together['seconds_per_trial']:.2f} s each and "
        f"{1000 * together['seconds_per_epoch']:.1f} ms an epoch; {alone['trials']} of these, trained one after the "
        f"other by the same machine in the same run, {alone['seconds_per_trial']:.2f} s and "
        f"{1000 * alone['seconds_per_epoch']:.1f} ms: {record.results['ratio']:.1f} times as long an epoch "
        "([benchmarks/search_population.py](../benchmarks/search_population.py))."
    )


def main() -> None:
    between(ROOT / "docs" / "settings.md", "settings", all_settings())
    between(ROOT / "docs" / "search.md", "search", populations())
    pipeline.write_pages(ROOT / "experiments" / "paper", ROOT / "experiments" / "paper")
    write_selection()
    novel = Record.load(ROOT / "benchmarks" / "results" / "novelty.json")
    between(ROOT / "docs" / "data.md", "novelty", novelty(novel))
    digits = load_images("digits")
    predictors = demo.train(digits, 100, 0)
    between(ROOT / "README.md", "demo", demo_output(digits, predictors))
    picture(digits, predictors["squad"])
    results = ROOT / "benchmarks" / "results"
    gpu, cpu = (Record.load(results / f"fashion_mnist-{device}.json") for device in ("cuda", "cpu"))
    between(ROOT / "docs" / "prediction.md", "ways", ways(gpu, cpu))
    for name, made in performance.PARTS.items():
        between(ROOT / "docs" / "performance.md", name, made())
    performance.draw_all()


if __name__ == "__main__":
    main()
