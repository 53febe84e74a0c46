"""What is to be run: rows of a table or points of a grid, each a diff from the defaults.

A row becomes a job: its settings made whole, which is what its record tells and what decides whether it is done.
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

__all__ = ["ENDED", "FIT", "PLANS", "TABLES", "Job", "MissingStudyError", "Plan", "PlanError", "Row", "Study", "Way"]

#: The files: tables, and what figures and claims are made of, in the order in which they build on each other.
TABLES = ("table1", "table2", "table3")
PLANS = (*TABLES, "figures")
#: Tables of settings; whoever says something later adds to them.
FIT = ("network", "training")
#: Confidences: the largest mean probability, or minus the variance of that class's probability over the samples.
CONFIDENCES = ("response", "variance")
#: States of trials that count as evaluations.
ENDED = ("complete", "pruned")


class PlanError(SquadError):
    """A file of the paper's experiments that cannot be used."""


class MissingStudyError(PlanError):
    """A row's study is not there, or not so far that it could be used: nothing is wrong with the plan."""


@dataclass(frozen=True)
class Way:
    """How predictions are made, and what their confidence is.

    Attributes:
        sampling, samples: as :class:`squad.models.Sampler` has them.
        confidence: "response" (softmax response) or "variance".
    """

    sampling: str
    samples: int
    confidence: str = "response"

    @classmethod
    def parse(cls, text: str) -> "Way":
        """From "relaxed 32", "mean", or "sample 32 by variance".

        >>> Way.parse("sample 32 by variance")
        Way(sampling='sample', samples=32, confidence='variance')
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
        """What people read: "relaxed, T = 32"."""
        found = self.sampling if self.sampling == "mean" else f"{self.sampling}, T = {self.samples}"
        return found if self.confidence == "response" else f"{found}, by {self.confidence}"


@dataclass(frozen=True)
class Study:
    """A search that rows take their settings from.

    Attributes:
        name: its folder below ``search``, such as "fashion-mnist/mlp".
        data, model, trials, objective: what is searched.
        settings: what all trials share, in tables.
        space: file of what varies, below the folder of the plans; None is the model's own.
        prune: whether trials whose accuracy falls below the median of complete ones are given up.
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
    """A row as its file says it.

    Attributes:
        name: such as "table1/mlp": where its record is, and what it is called.
        label: what people call it.
        group: which part of the table it stands in; "" is the paper's own rows.
        study, first: where its settings come from: the best of the first so many trials of a study.
        ways: how it is asked.
        paper, paper_ensemble: the paper's figures, each [mean, two standard deviations] or [number].
        paper_ways: those of ways that the paper has in a row of their own.
        content: everything else, as tables.
    """

    name: str
    label: str
    group: str
    study: Study | None
    first: int | None
    ways: tuple[Way, ...]
    paper: tuple[tuple[float, ...], ...] | None
    paper_ensemble: tuple[tuple[float, ...], ...] | None
    paper_ways: Mapping[Way, tuple[tuple[float, ...], ...]]
    content: Mapping[str, Any] = field(repr=False)

    def published(self, way: Way) -> tuple[tuple[float, ...], ...] | None:
        """The paper's figures of this way."""
        return self.paper_ways.get(way, self.paper)


@dataclass(frozen=True)
class Job:
    """A row with whole settings: what is run, and what its record tells.

    Attributes:
        row: what it is made of.
        data: name of the data set.
        settings: of the fit, in tables; members, seeds and splits among them.
        halves: how many random halves of the test rows are certified.
        train_rows, test_rows: at most so many are taken; None is all.
        crop: how images are cut otherwise (:mod:`experiments.paper.jobs.crops`); None is as they are.
        probes: what is looked at beside the answers (:mod:`experiments.paper.jobs.probes`).
        source: where the settings come from.
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
        """Of its record."""
        return self.row.name

    def described(self) -> dict[str, Any]:
        """As plain data: two jobs with the same are the same."""
        found = {
            "data": self.data,
            "fit": self.settings,
            "ways": [[way.sampling, way.samples, way.confidence] for way in self.row.ways],
            "halves": self.halves,
            "train_rows": self.train_rows,
            "probes": self.probes,
            "source": self.source,
            **({} if self.test_rows is None else {"test_rows": self.test_rows}),
            **({} if self.crop is None else {"crop": self.crop}),
        }
        plain: dict[str, Any] = json.loads(json.dumps(found))
        return plain


@dataclass(frozen=True)
class Plan:
    """One file.

    Attributes:
        name: of the file, such as "table1".
        title: what it shows.
        folder: where it lies, with ``search`` beside it.
        rows: in order.
        quick: whether rows are the small ones of --quick.
    """

    name: str
    title: str
    folder: Path
    rows: tuple[Row, ...]
    quick: bool

    def studies(self) -> dict[str, Study]:
        """Those its rows take settings from, by name."""
        return {row.study.name: row.study for row in self.rows if row.study is not None}

    def job(self, row: Row) -> Job:
        """The whole settings of a row; a study that is not there, or settings that are none, are a :class:`PlanError`.

        What is said later wins: the defaults, the file for all rows, the study, the row, and --quick.
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
        found: dict[str, Any] = {}
        if row.study is not None:
            try:
                search, trial = self.chosen(row)
            except MissingStudyError:
                if not self.quick:
                    raise
                source = {"from": f"the defaults: there is no whole study {row.study.name}"}
            else:
                found = _settings(search, trial)
                source = {
                    "from": "search",
                    "study": row.study.name,
                    "first": row.first,
                    "trial": trial.number,
                    "value": trial.value,
                }
        try:
            for said in (_dotted(content["file"]), found, _dotted(content), _dotted(content["quick"])):
                base = assigned(base, said)
            network = fit_settings(base).network
            for way in row.ways:
                network.check_sampling(way.sampling, way.samples)
            for probe in content.get("probes", ()):
                probes.check(probe, network)
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

    def chosen(self, row: Row) -> tuple[Search, TrialRecord]:
        """The study of a row, and the best among its first trials."""
        assert row.study is not None
        folder = self.folder / "search" / row.study.name
        if not (folder / TRIALS).is_file():
            raise MissingStudyError(
                f"{row.name} takes its settings from the study {row.study.name}, which is not in {folder}."
            )
        search = read(folder)
        first = [trial for trial in search.counted if trial.state in ENDED][: row.first]
        if len(first) < (row.first or row.study.trials):
            raise MissingStudyError(
                f"{row.name} needs the first {row.first or row.study.trials} trials of {row.study.name}; "
                f"there are {len(first)}."
            )
        numbers = {trial.number for trial in first}
        best = next((trial for trial in search.top(len(search.measured)) if trial.number in numbers), None)
        if best is None:
            raise PlanError(f"{row.name}: all of the first {len(first)} trials of {row.study.name} came to nothing.")
        return search, best


def _settings(search: Search, trial: TrialRecord) -> dict[str, Any]:
    """A trial's settings and those that all of its study share, by dotted names; not the split, which is the row's."""
    return {**_dotted(search.record.settings["base"]), **trial.settings}


def _dotted(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the network and of training by their dotted names."""
    return {f"{table}.{name}": value for table in FIT for name, value in tables.get(table, {}).items()}
