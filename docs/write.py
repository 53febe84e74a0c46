"""Write the generated parts of docs/ from the code and the records.

docs/start/demo.md: the comparison of ``squad demo``; docs/images/hero.png: the digits that its certified network
accepts; docs/images/latent.png: a few latents of that network; docs/images/inspect.png: one unit of it;
docs/images/report.png: its report;
docs/explanation/sampling.md: the table of sampling modes, from the records in benchmarks/results;
docs/evidence/validity.md: coverage and validity of certificates, from records;
docs/evidence/performance.md: claims, tables and figures, from records (docs/performance);
docs/evidence/tables.md: SQUAD and gradient boosting on public tables, from a record;
docs/reference/command.md: the help of every command; docs/reference/settings.md: the settings, from their classes;
docs/guides/search.md: the speed of populations;
experiments/paper: its pages and figures, from the records there. The sections are in docs/sections.
"""

import io
import re
from collections.abc import Callable
from pathlib import Path

from docs import performance
from docs.sections import (
    calibration,
    certification,
    commands,
    data,
    hero,
    inspect_figure,
    leakage,
    prediction,
    readme,
    report_screenshot,
    search,
    settings,
    tables,
)
from experiments.paper import pipeline
from squad.cli import demo, demo_comparison
from squad.data.images import load_images
from squad.records import Record

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAPER = ROOT / "experiments" / "paper"
RESULTS = ROOT / "benchmarks" / "results"

#: Sections of docs/evidence/validity.md by the name of their markers: the function that writes each, and its record.
SELECTION: dict[str, tuple[Callable[[Record], str], str]] = {
    "coverage": (certification.coverage_table, "certify_coverage"),
    "overconfident": (certification.overconfident_table, "certify_coverage"),
    "harms": (certification.several_harms_table, "certify_coverage"),
    "validity": (certification.validity_table, "certify_validity"),
    "speed": (certification.speed_table, "metrics_speed-cpu"),
    "recalibration": (calibration.recalibration_table, "recalibration-cuda"),
    "few rows": (calibration.few_rows_table, "recalibration_rows"),
    "intervals": (calibration.interval_table, "intervals"),
    "behind": (certification.default_behind_table, "certify_coverage"),
    "dependent": (leakage.dependent_rows_table, "calibration_rows"),
    "honest": (leakage.false_alarm_table, "calibration_rows"),
    "copies": (leakage.near_copies_table, "leakage"),
    "risks": (leakage.true_risk_table, "leakage"),
    "repeating": (leakage.repeated_rows_text, "leakage"),
    "removed": (leakage.exact_and_near_table, "leakage"),
    "bets": (certification.betting_table, "certify_samples"),
    "samples": (certification.weighted_samples_table, "certify_samples"),
    "plan": (certification.planning_table, "plan_power"),
    "again": (certification.repeated_attempts_table, "attempts"),
    "shares": (certification.attempt_coverage_table, "attempts"),
}


def replace_section(page: Path, name: str, text: str) -> None:
    """Replace the text between the markers called ``name``."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    old = page.read_text(encoding="utf-8")
    pattern = f"{re.escape(begin)}.*?{re.escape(end)}"
    changed, count = re.subn(pattern, lambda _: f"{begin}\n{text}\n{end}", old, flags=re.S)
    # A single match could still hold a second begin.
    assert count == old.count(begin) == old.count(end) == 1, f"{page} must have the markers of {name} exactly once"
    page.write_text(changed, encoding="utf-8")


def selection_sections() -> dict[str, str]:
    """Return the sections of docs/evidence/validity.md, by the names of their markers."""
    return {name: write(Record.load(RESULTS / f"{record}.json")) for name, (write, record) in SELECTION.items()}


def sampling_table() -> str:
    """Return the table of sampling modes in docs/explanation/sampling.md."""
    gpu, cpu = (Record.load(RESULTS / f"fashion_mnist-{device}.json") for device in ("cuda", "cpu"))
    return prediction.sampling_table(gpu, cpu)


def main() -> None:
    """Write all generated sections, pages and figures."""
    replace_section(DOCS / "reference/settings.md", "settings", settings.all_settings())
    replace_section(DOCS / "reference/command.md", "commands", commands.all_commands())
    population = Record.load(RESULTS / "search_population.json")
    text = search.population_text(PAPER / "search" / "fashion-mnist" / "squad", population)
    replace_section(DOCS / "guides/search.md", "search", text)
    pipeline.write_pages(PAPER, PAPER)
    for name, section in selection_sections().items():
        replace_section(DOCS / "evidence/validity.md", name, section)
    replace_section(DOCS / "guides/tables.md", "novelty", data.novelty_text(Record.load(RESULTS / "novelty.json")))
    public = Record.load(RESULTS / "tables.json")
    replace_section(DOCS / "evidence/tables.md", "summary", tables.comparison_text(public))
    replace_section(DOCS / "evidence/tables.md", "table", tables.comparison_table(public))
    digits = load_images("digits")
    sets = demo_comparison.folds(digits)
    predictors = demo.train_folds(sets, 100, 0)
    replace_section(DOCS / "start/demo.md", "demo", readme.demo_output(sets, predictors))
    readme.draw_latents(digits, predictors[0]["squad"], DOCS / "images" / "latent.png")
    inspect_figure.draw_inspect(predictors[0]["squad"], DOCS / "images" / "inspect.png")
    certified = demo.certified(digits, predictors[0]["squad"], io.StringIO())
    hero.draw_hero(digits, certified, DOCS / "images" / "hero.png")
    if not report_screenshot.draw_report(digits, certified, DOCS / "images" / "report.png"):
        print("docs/images/report.png is unchanged: there is no Chromium.")
    replace_section(DOCS / "explanation/sampling.md", "ways", sampling_table())
    for name, write in performance.PARTS.items():
        replace_section(DOCS / "evidence/performance.md", name, write())
    performance.draw_all()


if __name__ == "__main__":
    main()
