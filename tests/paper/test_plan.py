"""Plans: ways, where settings come from, and what is the same job."""

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
from experiments.paper.pipeline import plans
from squad.errors import ArgumentError
from squad.search.search_record import read
from squad.settings import fit_settings
from tests.paper.examples import PAPER, PLAN_START, plan_of, study_of, trial

#: Of a row that takes its settings from a study of three trials.
STUDIED = PLAN_START + '[search]\ntrials = 3\n[row.mlp]\nmodel = "mlp"\nsearch = "digits/mlp"\n'


# -- ways


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("mean", PredictionMode("mean", 1)),
        ("relaxed 32", PredictionMode("relaxed", 32)),
        ("  hard   8 ", PredictionMode("hard", 8)),
        ("sample 32 by variance", PredictionMode("sample", 32, "variance")),
        ("sample 4 by response", PredictionMode("sample", 4)),
        ("mean by variance", PredictionMode("mean", 1, "variance")),
    ],
)
def test_a_way_is_read(text: str, way: PredictionMode) -> None:
    assert PredictionMode.parse(text) == way


@given(
    sampling=st.sampled_from(["stratified", "relaxed", "hard", "sample", "mean"]),
    samples=st.integers(1, 999_999),
    confidence=st.sampled_from(CONFIDENCES),
)
def test_what_is_written_as_a_way_is_read_as_one(sampling: str, samples: int, confidence: str) -> None:
    way = PredictionMode.parse(f"{sampling} {samples} by {confidence}")
    assert way == PredictionMode(sampling, samples, confidence)
    # What people read tells all of it, but for the samples of a mean, of which there are none.
    assert sampling in way.text
    assert (f"T = {samples}" in way.text) == (sampling != "mean")
    assert way.text.endswith(", by variance") == (confidence == "variance")
    if confidence == "response":
        assert PredictionMode.parse(f"{sampling} {samples}") == way


@pytest.mark.parametrize(
    "text",
    ["", " ", "by variance", "relaxed many", "relaxed 3.5", "relaxed -3", "relaxed 32 64", "relaxed 32 by", "32 by"],
)
def test_other_forms_of_a_way_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="of the form 'relaxed 32', 'mean' or 'sample 32 by variance'"):
        PredictionMode.parse(text)


@pytest.mark.parametrize("text", ["relaxd 32", "32", "relaxed 0", "relaxed ²"])
def test_a_way_that_no_network_can_be_asked_in_is_refused_before_any_is_trained(text: str) -> None:
    with pytest.raises(ArgumentError):
        PredictionMode.parse(text)


def test_a_confidence_that_is_none_is_refused() -> None:
    with pytest.raises(ArgumentError, match="confidence must be one of 'response', 'variance', got 'entropy'"):
        PredictionMode.parse("sample 32 by entropy")


# -- where settings come from

SPEAKERS = ("table", "study", "row", "quick")


def spoken(tmp_path: Path, says: dict[str, str]) -> dict[str, Any]:
    """What training is set to where some say something about it, in TOML's words."""
    study_of(tmp_path, [trial(0, 0.5, {"training.lr": 0.125, **json.loads(says.get("study", "{}"))})])
    tables = {name: f"training = {{{says[name]}}}\n" if name in says else "" for name in ("table", "row", "quick")}
    text = (
        PLAN_START
        + tables["table"]
        + f"[search]\ntrials = 1\n[quick]\n{tables['quick']}"
        + f'[row.mlp]\nmodel = "mlp"\nsearch = "digits/mlp"\n{tables["row"]}'
    )
    plan = plan_of(tmp_path, text, quick="quick" in says)
    found: dict[str, Any] = dict(plan.job(plan.rows[0]).settings["training"])
    return found


@pytest.mark.parametrize(
    "who", [some for count in range(5) for some in itertools.combinations(SPEAKERS, count)], ids="+".join
)
def test_the_later_word_wins(tmp_path: Path, who: tuple[str, ...]) -> None:
    says = {name: f"weight_decay = {place + 1}.0" for place, name in enumerate(SPEAKERS) if name in who}
    if "study" in says:
        says["study"] = '{"training.weight_decay": 2.0}'
    found = spoken(tmp_path, says)
    assert found["lr"] == 0.125  # of the study, about which nobody else has said anything
    assert found.get("weight_decay") == (SPEAKERS.index(who[-1]) + 1.0 if who else None)


@pytest.mark.parametrize("who", SPEAKERS)
def test_what_others_say_of_other_settings_stays(tmp_path: Path, who: str) -> None:
    says = {"table": "weight_decay = 1.0", "study": '{"training.lr": 0.25}', "row": "adversarial = 0.5"}
    says["quick"] = "max_epochs = 3"
    found = spoken(tmp_path, says)
    name, value = {
        "table": ("weight_decay", 1.0),
        "study": ("lr", 0.25),
        "row": ("adversarial", 0.5),
        "quick": ("max_epochs", 3),
    }[who]
    assert found.get(name) == value


def test_what_all_trials_of_a_study_share_is_taken_but_not_its_split(tmp_path: Path) -> None:
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
def test_the_best_of_the_first_trials_not_of_all(
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
    # In plain words: in their order, those that came to an end; the highest value, then the smallest AURC.
    ended = [one for one in trials if one["state"] in ("complete", "pruned")][:first]
    fit = [one for one in ended if one["ended"] == "stopped early"]
    assume(fit or len(ended) < first)
    if len(ended) < first:
        with pytest.raises(PlanError, match=f"needs the first {first} trials of digits/mlp; there are {len(ended)}"):
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


def test_attempts_that_were_made_again_do_not_count(tmp_path: Path) -> None:
    lost = [trial(number, state="failed", ended=None) for number in range(2)]
    again = [trial(number + 2, 0.1 * number, retried_from=number) for number in range(2)]
    study_of(tmp_path, [*lost, *again, trial(4, 0.9)])
    plan = plan_of(tmp_path, f"{STUDIED}first = 2\n")
    assert plan.job(plan.rows[0]).source["trial"] == 3


def test_a_study_that_is_short_is_told_so_even_without_first(tmp_path: Path) -> None:
    study_of(tmp_path, [trial(0, 0.5), trial(1, 0.6)])
    plan = plan_of(tmp_path, STUDIED)
    with pytest.raises(PlanError, match="small/mlp needs the first 3 trials of digits/mlp; there are 2"):
        plan.job(plan.rows[0])
    study_of(tmp_path, [trial(0, 0.5), trial(1, 0.6), trial(2, 0.1), trial(3, 0.9)])
    assert plan.job(plan.rows[0]).source["trial"] == 3  # without "first" all there are


def test_a_study_of_which_nothing_can_be_used_is_told(tmp_path: Path) -> None:
    study_of(tmp_path, [trial(number, 0.0, ended="diverged") for number in range(3)])
    plan = plan_of(tmp_path, STUDIED)
    with pytest.raises(PlanError, match="digits/mlp"):
        plan.job(plan.rows[0])


def test_a_study_that_is_not_there(tmp_path: Path) -> None:
    text = STUDIED + "[quick]\nmembers = 2\n"
    plan = plan_of(tmp_path, text)
    with pytest.raises(PlanError, match="small/mlp takes its settings from the study digits/mlp, which is not in"):
        plan.job(plan.rows[0])
    quick = plan_of(tmp_path, text, quick=True)
    for ended in (0, 2):  # none of it, or not all
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
        ('model = "mlp"\nprobes = ["information"]', "information for mlp"),
        ('model = "squad"\nnetwork = {hidden = [4]}\nprobes = ["activation"]', "activation of 4 units"),
        ('model = "mlp"\nways = ["relaxed 3"]', "sampling must be one of"),
    ],
)
def test_what_a_network_has_not_is_found_out_before_it_is_trained(tmp_path: Path, row: str, wrong: str) -> None:
    plan = plan_of(tmp_path, f"{PLAN_START}[row.one]\n{row}\n")
    with pytest.raises(PlanError, match=f"small/one: .*{wrong}"):
        plan.job(plan.rows[0])


# -- what is the same job


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


def test_a_job_is_described_as_json_keeps_it(tmp_path: Path) -> None:
    described = job_of(tmp_path, SAME).to_dict()
    assert json.loads(json.dumps(described)) == described
    assert job_of(tmp_path, SAME).to_dict() == described
    # What people call it, and what the paper has, is not what is run.
    words = 'label = "Other"\ngroup = "further"\npaper = [1, 2, 3, 4, 5]\ntraining ='
    assert job_of(tmp_path, SAME.replace("training =", words)).to_dict() == described


@pytest.mark.parametrize("what", CHANGES)
def test_another_setting_is_another_job(tmp_path: Path, what: str) -> None:
    changed = SAME.replace(*CHANGES[what])
    assert changed != SAME
    assert job_of(tmp_path, changed).to_dict() != job_of(tmp_path, SAME).to_dict()


def test_another_best_trial_is_another_job(tmp_path: Path) -> None:
    study_of(tmp_path, [trial(0, 0.5, {"training.lr": 0.1}), trial(1, 0.4), trial(2, 0.4), trial(3, 0.9)])
    one = job_of(tmp_path, f"{STUDIED}first = 3\n").to_dict()
    other = job_of(tmp_path, f"{STUDIED}first = 4\n").to_dict()
    assert one["fit"] != other["fit"]
    assert one["source"] != other["source"]


# -- the repository's own


def full_heading(folder: Path, first: int | None) -> bool:
    """Whether there are so many trials of a study."""
    ended = [one for one in read(folder).counted if one.state in FINISHED_STATES] if folder.exists() else []
    return len(ended) >= (first or 1)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_the_papers_plans(name: str, quick: bool) -> None:
    plan = read_plan(PAPER / f"{name}.toml", quick=quick)
    assert plan.rows
    for row in plan.rows:
        studied = row.study is not None and full_heading(plan.folder / "search" / row.study.name, row.first_trials)
        if row.study is not None and not studied and not quick:
            with pytest.raises(PlanError, match=r"takes its settings from|needs the first"):
                plan.job(row)
            continue
        job = plan.job(row)
        settings = fit_settings(job.settings)
        assert settings.network.name == job.settings["model"]
        for way in row.modes:
            assert way.sampling in settings.network.samplings
        if row.study is not None and studied:
            # It is the best of its first trials, by the study's own record.
            trials = [one for one in read(plan.folder / "search" / row.study.name).counted if one.value is not None]
            assert job.source["value"] == max(one.value for one in trials[: row.first_trials] if one.value is not None)
            assert job.settings["model"] == row.study.model


def test_the_papers_plans_are_complete_without_quick() -> None:
    for whole, small in zip(plans("all", PAPER), plans("all", PAPER, quick=True), strict=True):
        assert {row.name for row in small.rows} <= {row.name for row in whole.rows}
        assert whole.name in PLANS


def test_a_study_is_the_same_whichever_plan_asks_for_it() -> None:
    """Table 1, table 2 and the figures take settings from the same studies: whoever comes first makes them."""
    found: dict[str, Any] = {}
    for plan in plans("all", PAPER):
        for row in plan.rows:
            if row.study is not None:
                assert found.setdefault(row.study.name, row.study) == row.study, row.name
