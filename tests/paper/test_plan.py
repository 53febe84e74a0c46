"""Plans: prediction modes, resolution of settings, and equality of jobs."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from experiments.paper.jobs.plan import CONFIDENCES, FINISHED_STATES, PLANS, Job, PlanError, PredictionMode
from experiments.paper.jobs.plan_files import read_plan
from experiments.paper.pipeline import read_plans
from squad.errors import ArgumentError
from squad.search.search_record import read
from squad.settings import fit_settings
from tests.paper.examples import PAPER, PLAN_START, plan_of, study_of, trial

#: A plan with a row that takes its settings from a study of three trials.
STUDIED = PLAN_START + '[search]\ntrials = 3\n[row.mlp]\nmodel = "mlp"\nsearch = "digits/mlp"\n'


# -- prediction modes


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("mean", PredictionMode("mean", 1)),
        ("relaxed 32", PredictionMode("relaxed", 32)),
        ("  hard   8 ", PredictionMode("hard", 8)),
        ("sample 32 by variance", PredictionMode("sample", 32, "variance")),
        ("sample 4 by response", PredictionMode("sample", 4)),
        ("mean by variance", PredictionMode("mean", 1, "variance")),
    ],
)
def test_modes_are_parsed(text: str, mode: PredictionMode) -> None:
    assert PredictionMode.parse(text) == mode


@given(
    sampling=st.sampled_from(["stratified", "relaxed", "hard", "sample", "mean"]),
    samples=st.integers(1, 999_999),
    confidence=st.sampled_from(CONFIDENCES),
)
def test_modes_round_trip(sampling: str, samples: int, confidence: str) -> None:
    mode = PredictionMode.parse(f"{sampling} {samples} by {confidence}")
    assert mode == PredictionMode(sampling, samples, confidence)
    # The text for the pages contains everything, except for the number of samples of a mean, which has none.
    assert sampling in mode.text
    assert (f"T = {samples}" in mode.text) == (sampling != "mean")
    assert mode.text.endswith(", by variance") == (confidence == "variance")
    if confidence == "response":
        assert PredictionMode.parse(f"{sampling} {samples}") == mode


@pytest.mark.parametrize(
    "text",
    ["", " ", "by variance", "relaxed many", "relaxed 3.5", "relaxed -3", "relaxed 32 64", "relaxed 32 by", "32 by"],
)
def test_malformed_modes_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"ways .*'sample 32 by variance', got"):
        PredictionMode.parse(text)


@pytest.mark.parametrize("text", ["relaxd 32", "32", "relaxed 0", "relaxed ²"])
def test_unknown_sampling_modes_and_counts_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="ways"):
        PredictionMode.parse(text)


def test_an_unknown_confidence_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"confidence .*'response', 'variance', got 'entropy'"):
        PredictionMode.parse("sample 32 by entropy")


# -- resolution of settings

#: Origins of settings, in the order in which they override each other.
ORIGINS = ("table", "study", "row", "quick")


def resolved(tmp_path: Path, given: dict[str, str]) -> dict[str, Any]:
    """Return the resolved settings of training, given those of each origin in TOML."""
    study_of(tmp_path, [trial(0, 0.5, {"training.lr": 0.125, **json.loads(given.get("study", "{}"))})])
    tables = {name: f"training = {{{given[name]}}}\n" if name in given else "" for name in ("table", "row", "quick")}
    text = (
        PLAN_START
        + tables["table"]
        + f"[search]\ntrials = 1\n[quick]\n{tables['quick']}"
        + f'[row.mlp]\nmodel = "mlp"\nsearch = "digits/mlp"\n{tables["row"]}'
    )
    plan = plan_of(tmp_path, text, quick="quick" in given)
    found: dict[str, Any] = dict(plan.job(plan.rows[0]).settings["training"])
    return found


@pytest.mark.parametrize(
    "origins", [some for count in range(5) for some in itertools.combinations(ORIGINS, count)], ids="+".join
)
def test_later_origins_override_earlier_ones(tmp_path: Path, origins: tuple[str, ...]) -> None:
    given = {name: f"weight_decay = {place + 1}.0" for place, name in enumerate(ORIGINS) if name in origins}
    if "study" in given:
        given["study"] = '{"training.weight_decay": 2.0}'
    found = resolved(tmp_path, given)
    assert found["lr"] == 0.125  # of the study; no other origin sets it
    assert found.get("weight_decay") == (ORIGINS.index(origins[-1]) + 1.0 if origins else None)


@pytest.mark.parametrize("origin", ORIGINS)
def test_settings_of_different_origins_are_merged(tmp_path: Path, origin: str) -> None:
    given = {"table": "weight_decay = 1.0", "study": '{"training.lr": 0.25}', "row": "adversarial = 0.5"}
    given["quick"] = "max_epochs = 3"
    found = resolved(tmp_path, given)
    name, value = {
        "table": ("weight_decay", 1.0),
        "study": ("lr", 0.25),
        "row": ("adversarial", 0.5),
        "quick": ("max_epochs", 3),
    }[origin]
    assert found.get(name) == value


def test_shared_settings_of_a_study_are_used_except_for_the_split(tmp_path: Path) -> None:
    base = {"validation": 0.5, "seed": 9, "members": 4, "network": {"hidden": [5]}, "training": {"max_epochs": 6}}
    study_of(tmp_path, [trial(0, 0.5, {"training.lr": 0.125, "training.max_epochs": 4})], base=base)
    plan = plan_of(tmp_path, STUDIED.replace("trials = 3", "trials = 1"))
    settings = plan.job(plan.rows[0]).settings
    assert settings["network"] == {"hidden": [5]}
    assert settings["training"] == {"max_epochs": 4, "lr": 0.125}
    assert (settings["validation"], settings["seed"], settings["members"]) == (0.25, 0, 1)


FATES: list[dict[str, Any]] = [
    {"ended": "stopped early"},
    {"ended": "stopped early"},
    {"ended": "diverged", "value": 0.0},
    {"ended": "pruned", "state": "pruned", "value": None},
    {"ended": None, "state": "failed", "value": None},
    {"ended": None, "state": "running", "value": None},
]


@given(
    st.lists(
        st.tuples(st.sampled_from(FATES), st.integers(0, 4), st.sampled_from([0.1, 0.2, None])), min_size=1, max_size=9
    ),
    st.integers(1, 6),
)
def test_the_best_of_the_first_trials_is_used(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[dict[str, Any], int, float | None]], first: int
) -> None:
    tmp_path = tmp_path_factory.mktemp("first")
    trials = [
        trial(
            number,
            value / 4,
            {"training.lr": 0.001 * (number + 1)},
            **({} if aurc is None else {"details": {"aurc": aurc}}),
        )
        | fate
        for number, (fate, value, aurc) in enumerate(drawn)
    ]
    study_of(tmp_path, trials)
    plan = plan_of(tmp_path, f"{STUDIED}first = {first}\n")
    # Among the first finished trials: the highest value, then the smallest AURC.
    ended = [one for one in trials if one["state"] in ("complete", "pruned")][:first]
    fit = [one for one in ended if one["ended"] == "stopped early"]
    assume(fit or len(ended) < first)
    if len(ended) < first:
        with pytest.raises(PlanError, match=f"first {first} trials .*digits/mlp, which has {len(ended)}"):
            plan.job(plan.rows[0])
    else:
        best = min(fit, key=lambda one: (-one["value"], one["details"].get("aurc", math.inf), one["number"]))
        job = plan.job(plan.rows[0])
        assert job.settings["training"]["lr"] == best["settings"]["training.lr"]
        assert job.source == {
            "from": "search",
            "study": "digits/mlp",
            "first": first,
            "trial": best["number"],
            "value": best["value"],
        }


def test_retried_attempts_do_not_count(tmp_path: Path) -> None:
    lost = [trial(number, state="failed", ended=None) for number in range(2)]
    again = [trial(number + 2, 0.1 * number, retried_from=number) for number in range(2)]
    study_of(tmp_path, [*lost, *again, trial(4, 0.9)])
    plan = plan_of(tmp_path, f"{STUDIED}first = 2\n")
    assert plan.job(plan.rows[0]).source["trial"] == 3


def test_an_incomplete_study_is_refused_without_first(tmp_path: Path) -> None:
    study_of(tmp_path, [trial(0, 0.5), trial(1, 0.6)])
    plan = plan_of(tmp_path, STUDIED)
    with pytest.raises(PlanError, match=r"small/mlp .*first 3 trials .*digits/mlp, which has 2"):
        plan.job(plan.rows[0])
    study_of(tmp_path, [trial(0, 0.5), trial(1, 0.6), trial(2, 0.1), trial(3, 0.9)])
    assert plan.job(plan.rows[0]).source["trial"] == 3  # without "first": the best of all trials


def test_a_study_without_results_is_refused(tmp_path: Path) -> None:
    study_of(tmp_path, [trial(number, 0.0, ended="diverged") for number in range(3)])
    plan = plan_of(tmp_path, STUDIED)
    with pytest.raises(PlanError, match="digits/mlp"):
        plan.job(plan.rows[0])


def test_a_missing_study(tmp_path: Path) -> None:
    text = STUDIED + "[quick]\nmembers = 2\n"
    plan = plan_of(tmp_path, text)
    with pytest.raises(PlanError, match=r"small/mlp .*study digits/mlp, which is not in"):
        plan.job(plan.rows[0])
    quick = plan_of(tmp_path, text, quick=True)
    for ended in (0, 2):  # missing, or incomplete
        if ended:
            study_of(tmp_path, [trial(number, 0.5, {"training.lr": 0.125}) for number in range(ended)])
        job = quick.job(quick.rows[0])
        assert job.source == {"from": "the defaults: there is no whole study digits/mlp"}
        assert job.settings.keys() == {"model", "members", "seed", "validation", "split_per_member"}
    study_of(tmp_path, [trial(number, 0.5, {"training.lr": 0.125}) for number in range(3)])
    job = quick.job(quick.rows[0])
    assert (job.source["from"], job.settings["training"]) == ("search", {"lr": 0.125})


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ('model = "mlp"\nprobes = ["information"]', "'information' .*got 'mlp'"),
        (
            'model = "squad"\nnetwork = {hidden = [4]}\nprobes = ["activation"]',
            "'activation' .*at least 12 units.*got 4",
        ),
        ('model = "mlp"\nways = ["relaxed 3"]', "sampling .*'relaxed'"),
    ],
)
def test_impossible_probes_and_modes_are_found_before_training(tmp_path: Path, row: str, wrong: str) -> None:
    plan = plan_of(tmp_path, f"{PLAN_START}[row.one]\n{row}\n")
    with pytest.raises(PlanError, match=f"small/one: .*{wrong}"):
        plan.job(plan.rows[0])


# -- equality of jobs


def job_of(tmp_path: Path, text: str) -> Job:
    plan = plan_of(tmp_path, text)
    return plan.job(plan.rows[0])


SAME = (
    PLAN_START + 'halves = 4\n[row.mlp]\nmodel = "mlp"\nways = ["mean"]\nprobes = ["spread"]\ntraining = {lr = 0.1}\n'
)
CHANGES = {
    "data": ('data = "digits"', 'data = "svhn"'),
    "validation": ("validation = 0.25", "validation = 0.2"),
    "rows": ("train_rows = 150", "train_rows = 151"),
    "test rows": ("halves = 4", "halves = 4\ntest_rows = 9"),
    "crop": ("halves = 4", 'halves = 4\ncrop = "softer"'),
    "halves": ("halves = 4", "halves = 5"),
    "members": ("halves = 4", "halves = 4\nmembers = 2"),
    "model": ('model = "mlp"', 'model = "relu-dropout"'),
    "way": ('"mean"', '"mean by variance"'),
    "ways": ('"mean"', '"mean", "mean by variance"'),
    "probes": ('"spread"', '"spread", "epoch"'),
    "training": ("lr = 0.1", "lr = 0.10000000000000002"),
    "network": ("training =", "network = {hidden = [4]}\ntraining ="),
}


def test_a_job_is_plain_json(tmp_path: Path) -> None:
    content = job_of(tmp_path, SAME).to_dict()
    assert json.loads(json.dumps(content)) == content
    assert job_of(tmp_path, SAME).to_dict() == content
    # Labels and the paper's results are not part of a job.
    words = 'label = "Other"\ngroup = "further"\npaper = [1, 2, 3, 4, 5]\ntraining ='
    assert job_of(tmp_path, SAME.replace("training =", words)).to_dict() == content


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_setting_changes_the_job(tmp_path: Path, what: str) -> None:
    changed = SAME.replace(*CHANGES[what])
    assert changed != SAME
    assert job_of(tmp_path, changed).to_dict() != job_of(tmp_path, SAME).to_dict()


def test_another_best_trial_changes_the_job(tmp_path: Path) -> None:
    study_of(tmp_path, [trial(0, 0.5, {"training.lr": 0.1}), trial(1, 0.4), trial(2, 0.4), trial(3, 0.9)])
    one = job_of(tmp_path, f"{STUDIED}first = 3\n").to_dict()
    other = job_of(tmp_path, f"{STUDIED}first = 4\n").to_dict()
    assert one["fit"] != other["fit"]
    assert one["source"] != other["source"]


# -- the plans of the repository


def is_complete(folder: Path, first: int | None) -> bool:
    """Whether a study has the trials that a row needs."""
    finished = [one for one in read(folder).counted if one.state in FINISHED_STATES] if folder.exists() else []
    return len(finished) >= (first or 1)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_the_papers_plans_can_be_resolved(name: str, quick: bool) -> None:
    plan = read_plan(PAPER / f"{name}.toml", quick=quick)
    assert plan.rows
    for row in plan.rows:
        studied = row.study is not None and is_complete(plan.folder / "search" / row.study.name, row.first_trials)
        if row.study is not None and not studied and not quick:
            with pytest.raises(PlanError, match="the study"):
                plan.job(row)
            continue
        job = plan.job(row)
        settings = fit_settings(job.settings)
        assert settings.network.name == job.settings["model"]
        for mode in row.modes:
            assert mode.sampling in settings.network.samplings
        if row.study is not None and studied:
            # The trial is the best of the first ones, by the study's own record.
            trials = [one for one in read(plan.folder / "search" / row.study.name).counted if one.value is not None]
            assert job.source["value"] == max(one.value for one in trials[: row.first_trials] if one.value is not None)
            assert job.settings["model"] == row.study.model


def test_quick_only_leaves_rows_out() -> None:
    for whole, small in zip(read_plans("all", PAPER), read_plans("all", PAPER, quick=True), strict=True):
        assert {row.name for row in small.rows} <= {row.name for row in whole.rows}
        assert whole.name in PLANS


def test_plans_agree_on_their_studies() -> None:
    """Table 1, table 2 and the figures share studies, which are run by the first plan that needs them."""
    found: dict[str, Any] = {}
    for plan in read_plans("all", PAPER):
        for row in plan.rows:
            if row.study is not None:
                assert found.setdefault(row.study.name, row.study) == row.study, row.name
