"""Plans: the rows of a table or the points of a grid, each given as a difference from the defaults.

A row becomes a job when its settings are resolved. The resolved settings are stored in the job's record; a job whose
settings equal those of its record is not run again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.paper.jobs import probes
from squad.core.checks import check_choice, check_count
from squad.errors import ArgumentError, SquadError
from squad.models.sampler import SAMPLINGS
from squad.search.search_record import TRIALS, Search, TrialRecord, read
from squad.settings import assigned, fit_settings

__all__ = [
    "FINISHED_STATES",
    "PLANS",
    "SETTINGS_TABLES",
    "TABLES",
    "Job",
    "MissingStudyError",
    "Plan",
    "PlanError",
    "PredictionMode",
    "Row",
    "Study",
]

#: Plans of the paper's tables.
TABLES = ("table1", "table2", "table3")
#: All plans, in the order in which they build on each other; "figures" is for the paper's figures and claims.
PLANS = (*TABLES, "figures")
#: Tables of settings in a plan; the more specific plan entry overrides the more general one.
SETTINGS_TABLES = ("network", "training")
#: Confidence scores: the largest mean probability, or minus the variance of that class's probability over the samples.
CONFIDENCES = ("response", "variance")
#: States of trials that count as evaluations.
FINISHED_STATES = ("complete", "pruned")


class PlanError(SquadError):
    """A plan file that cannot be used."""


class MissingStudyError(PlanError):
    """The study of a row is missing or incomplete; the plan itself is valid."""


@dataclass(frozen=True)
class PredictionMode:
    """How predictions are made, and which confidence score ranks them.

    Attributes:
        sampling: Sampling mode, as in :class:`squad.models.Sampler`.
        samples: Number of samples T.
        confidence: "response" (softmax response) or "variance".
    """

    sampling: str
    samples: int
    confidence: str = "response"

    @classmethod
    def parse(cls, text: str) -> "PredictionMode":
        """Parse a text such as "relaxed 32", "mean", or "sample 32 by variance".

        >>> PredictionMode.parse("sample 32 by variance")
        PredictionMode(sampling='sample', samples=32, confidence='variance')
        """
        words = str(text).split()
        confidence = "response"
        if words[-2:-1] == ["by"]:
            confidence = check_choice("confidence", words[-1], CONFIDENCES)
            words = words[:-2]
        if len(words) not in (1, 2) or (len(words) == 2 and not words[1].isdecimal()):
            raise ArgumentError.of("ways", repr(text), "of the form 'relaxed 32', 'mean' or 'sample 32 by variance'")
        samples = check_count("ways", int(words[1]), 1) if len(words) == 2 else 1
        return cls(check_choice("ways", words[0], SAMPLINGS), samples, confidence)

    @property
    def text(self) -> str:
        """The mode as shown on the pages, such as "relaxed, T = 32"."""
        text = self.sampling if self.sampling == "mean" else f"{self.sampling}, T = {self.samples}"
        return text if self.confidence == "response" else f"{text}, by {self.confidence}"


@dataclass(frozen=True)
class Study:
    """A hyperparameter search from which rows take their settings.

    Attributes:
        name: Folder below ``search``, such as "fashion-mnist/mlp".
        data: Name of the data set.
        model: Name of the model.
        trials: Number of trials.
        objective: Objective of the search.
        settings: Settings shared by all trials, as tables.
        space: File of the search space, relative to the folder of the plans; None: the paper's space of the model.
        prune: Whether trials whose accuracy falls below the median of the complete trials are pruned.
    """

    name: str
    data: str
    model: str
    trials: int
    objective: str
    settings: Mapping[str, Any]
    space: str | None = None
    prune: bool = False


@dataclass(frozen=True)
class Row:
    """A row as given in its plan file.

    Attributes:
        name: Name of the row and path of its record, such as "table1/mlp".
        label: Name shown on the pages.
        group: Part of the table that shows it; "": the rows of the paper's own table.
        study: Study from which it takes its settings; None if it has none.
        first_trials: The best of this many first trials of the study is used; None: of all trials.
        modes: Prediction modes that are evaluated (``ways`` in the file).
        paper: The paper's results, each (mean, two standard deviations) or (value,); None if the paper has no such row.
        paper_ensemble: The paper's results of its ensembles.
        paper_by_mode: The paper's results for modes that have a row of their own there (``paper_ways`` in the file).
        content: All other entries, as tables.
    """

    name: str
    label: str
    group: str
    study: Study | None
    first_trials: int | None
    modes: tuple[PredictionMode, ...]
    paper: tuple[tuple[float, ...], ...] | None
    paper_ensemble: tuple[tuple[float, ...], ...] | None
    paper_by_mode: Mapping[PredictionMode, tuple[tuple[float, ...], ...]]
    content: Mapping[str, Any] = field(repr=False)

    def paper_results(self, mode: PredictionMode) -> tuple[tuple[float, ...], ...] | None:
        """Return the paper's results for a prediction mode."""
        return self.paper_by_mode.get(mode, self.paper)


@dataclass(frozen=True)
class Job:
    """A row with resolved settings: what is run, and what its record stores.

    Attributes:
        row: The row.
        data: Name of the data set.
        settings: Settings of the fit as tables, with members, seeds and splits.
        halves: Number of random splits of the test rows for certification and evaluation.
        train_rows: Maximum number of training rows; None: all.
        test_rows: Maximum number of test rows; None: all.
        crop: Alternative crop of the images (:mod:`experiments.paper.jobs.crops`); None: images as they are.
        probes: Further measurements on the networks (:mod:`experiments.paper.jobs.probes`).
        source: Where the settings come from.
    """

    row: Row
    data: str
    settings: Mapping[str, Any]
    halves: int
    train_rows: int | None
    test_rows: int | None
    crop: str | None
    probes: tuple[str, ...]
    source: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of its record."""
        return self.row.name

    def to_dict(self) -> dict[str, Any]:
        """Return the job as plain JSON data; jobs with equal data are the same job."""
        content = {
            "data": self.data,
            "fit": self.settings,
            "ways": [[mode.sampling, mode.samples, mode.confidence] for mode in self.row.modes],
            "halves": self.halves,
            "train_rows": self.train_rows,
            "probes": self.probes,
            "source": self.source,
            **({} if self.test_rows is None else {"test_rows": self.test_rows}),
            **({} if self.crop is None else {"crop": self.crop}),
        }
        plain: dict[str, Any] = json.loads(json.dumps(content))
        return plain


@dataclass(frozen=True)
class Plan:
    """The experiments of one plan file.

    Attributes:
        name: Stem of the file name, such as "table1".
        title: Title of its table.
        folder: Folder of the file, which also contains ``search``.
        rows: The rows, in the order of the file.
        quick: Whether the rows are the small ones of --quick.
    """

    name: str
    title: str
    folder: Path
    rows: tuple[Row, ...]
    quick: bool

    def studies(self) -> dict[str, Study]:
        """Return the studies from which rows take settings, by name."""
        return {row.study.name: row.study for row in self.rows if row.study is not None}

    def job(self, row: Row) -> Job:
        """Resolve the settings of a row.

        Each of these overrides those before it: the defaults, the file's settings for all rows, the study, the row,
        and --quick.

        Raises:
            PlanError: If the study is missing or incomplete, or settings are invalid.
        """
        content = row.content
        base: dict[str, Any] = {
            "model": content["model"],
            "members": content["members"],
            "seed": 0,
            "validation": content["validation"],
            "split_per_member": True,
        }
        source: dict[str, Any] = {"from": "the defaults and the file"}
        studied: dict[str, Any] = {}
        if row.study is not None:
            try:
                search, trial = self.best_trial(row)
            except MissingStudyError:
                if not self.quick:
                    raise
                source = {"from": f"the defaults: there is no whole study {row.study.name}"}
            else:
                studied = _trial_settings(search, trial)
                source = {
                    "from": "search",
                    "study": row.study.name,
                    "first": row.first_trials,
                    "trial": trial.number,
                    "value": trial.value,
                }
        try:
            for overrides in (_dotted(content["file"]), studied, _dotted(content), _dotted(content["quick"])):
                base = assigned(base, overrides)
            network = fit_settings(base).network
            for mode in row.modes:
                network.check_sampling(mode.sampling, mode.samples)
            for probe in content.get("probes", ()):
                probes.check_probe(probe, network)
        except ArgumentError as cause:
            raise PlanError(f"{row.name}: {cause}") from cause
        return Job(
            row,
            content["data"],
            base,
            content["halves"],
            content.get("train_rows"),
            content.get("test_rows"),
            content.get("crop"),
            tuple(content.get("probes", ())),
            source,
        )

    def best_trial(self, row: Row) -> tuple[Search, TrialRecord]:
        """Return the study of a row, and the best of its first trials."""
        assert row.study is not None
        folder = self.folder / "search" / row.study.name
        if not (folder / TRIALS).is_file():
            raise MissingStudyError(
                f"{row.name} takes its settings from the study {row.study.name}, which is not in {folder}."
            )
        search = read(folder)
        first = [trial for trial in search.counted if trial.state in FINISHED_STATES][: row.first_trials]
        needed = row.first_trials or row.study.trials
        if len(first) < needed:
            raise MissingStudyError(
                f"{row.name} needs the first {needed} trials of the study {row.study.name}, which has {len(first)}."
            )
        numbers = {trial.number for trial in first}
        best = next((trial for trial in search.top(len(search.measured)) if trial.number in numbers), None)
        if best is None:
            raise PlanError(f"{row.name}: none of the first {len(first)} trials of {row.study.name} has a result.")
        return search, best


def _trial_settings(search: Search, trial: TrialRecord) -> dict[str, Any]:
    """Return the settings of a trial and those shared by its study, by dotted names; the split is left to the row."""
    return {**_dotted(search.record.settings["base"]), **trial.settings}


def _dotted(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the network and of training by their dotted names."""
    return {f"{table}.{name}": value for table in SETTINGS_TABLES for name, value in tables.get(table, {}).items()}
