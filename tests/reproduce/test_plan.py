"""Plans: what a file says, what it becomes, and what is said of a file that is wrong."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from squad.errors import ArgumentError, SquadError
from squad.reproduce.plan import CONFIDENCES, PLANS, Job, PlanError, Way
from squad.reproduce.reading import read_plan
from squad.reproduce.whole import plans
from squad.search.trials import read
from squad.settings import fit_settings
from tests.reproduce.examples import HEAD, PAPER, plan_of, study_of, trial

MLP = '[row.mlp]\nmodel = "mlp"\n'
#: Of a row that takes its settings from a study of three trials.
STUDIED = HEAD + '[search]\ntrials = 3\n[row.mlp]\nmodel = "mlp"\nsearch = "digits/mlp"\n'


# -- ways


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("mean", Way("mean", 1)),
        ("relaxed 32", Way("relaxed", 32)),
        ("  hard   8 ", Way("hard", 8)),
        ("sample 32 by variance", Way("sample", 32, "variance")),
        ("sample 4 by response", Way("sample", 4)),
        ("mean by variance", Way("mean", 1, "variance")),
    ],
)
def test_a_way_is_read(text: str, way: Way) -> None:
    assert Way.parse(text) == way


@given(
    sampling=st.sampled_from(["stratified", "relaxed", "hard", "sample", "mean"]),
    samples=st.integers(1, 999_999),
    confidence=st.sampled_from(CONFIDENCES),
)
def test_what_is_written_as_a_way_is_read_as_one(sampling: str, samples: int, confidence: str) -> None:
    way = Way.parse(f"{sampling} {samples} by {confidence}")
    assert way == Way(sampling, samples, confidence)
    # What people read tells all of it, but for the samples of a mean, of which there are none.
    assert sampling in way.text
    assert (f"T = {samples}" in way.text) == (sampling != "mean")
    assert way.text.endswith(", by variance") == (confidence == "variance")
    if confidence == "response":
        assert Way.parse(f"{sampling} {samples}") == way


@pytest.mark.parametrize(
    "text",
    ["", " ", "by variance", "relaxed many", "relaxed 3.5", "relaxed -3", "relaxed 32 64", "relaxed 32 by", "32 by"],
)
def test_other_forms_of_a_way_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="of the form 'relaxed 32', 'mean' or 'sample 32 by variance'"):
        Way.parse(text)


@pytest.mark.parametrize("text", ["relaxd 32", "32", "relaxed 0", "relaxed ²"])
def test_a_way_that_no_network_can_be_asked_in_is_refused_before_any_is_trained(text: str) -> None:
    with pytest.raises(ArgumentError):
        Way.parse(text)


def test_a_confidence_that_is_none_is_refused() -> None:
    with pytest.raises(ArgumentError, match="confidence must be one of 'response', 'variance'; got 'entropy'"):
        Way.parse("sample 32 by entropy")


# -- files


def test_what_a_file_says(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        'title = "A small one"\n'
        + HEAD
        + 'members = 3\nhalves = 5\nprobes = ["spread"]\n'
        + '[row.mlp]\nlabel = "Plain"\ngroup = "further"\nmodel = "mlp"\nways = ["mean"]\n'
        + "paper = [1, [2.0, 0.5], [3.0, 0.1], 0.4, [90.0, 1.0]]\n"
        + '[row.bare]\nmodel = "squad"\nmembers = 1\ntrain_rows = 7\nhalves = 0\nprobes = []\n',
        name="some",
    )
    assert (plan.name, plan.title, plan.folder, plan.quick) == ("some", "A small one", tmp_path, False)
    one, two = plan.rows
    assert (one.name, one.label, one.group) == ("some/mlp", "Plain", "further")
    assert (two.name, two.label, two.group) == ("some/bare", "bare", "")
    assert one.ways == (Way("mean", 1),)
    assert two.ways == ()
    assert one.paper == ((1.0,), (2.0, 0.5), (3.0, 0.1), (0.4,), (90.0, 1.0))
    assert (one.paper_ensemble, two.paper) == (None, None)
    first, second = plan.job(one), plan.job(two)
    assert (first.name, first.data, first.halves, first.train_rows, first.probes) == (
        "some/mlp",
        "digits",
        5,
        150,
        ("spread",),
    )
    assert (second.halves, second.train_rows, second.probes) == (0, 7, ())
    # Members have seeds and splits of their own.
    fit = fit_settings(first.settings)
    assert (fit.members, fit.seed, fit.validation, fit.split_per_member) == (3, 0, 0.25, True)
    assert fit_settings(second.settings).members == 1


def test_what_a_file_does_not_say(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, 'data = "digits"\n' + MLP)
    assert plan.title == "small"
    job = plan.job(plan.rows[0])
    assert (job.halves, job.train_rows, job.probes) == (0, None, ())
    assert job.settings == {"model": "mlp", "members": 1, "seed": 0, "validation": 0.1, "split_per_member": True}
    assert job.source == {"from": "the defaults and the file"}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (f"dat = 3\n{MLP}", "dat is not a setting of an experiment. Did you mean data?"),
        (f"[quick]\nmember = 3\n{MLP}", "member is not a setting of quick. Did you mean members?"),
        (f"[search]\ntrial = 3\n{MLP}", "trial is not a setting of search. Did you mean trials?"),
        (f"{MLP}lable = 'x'", "lable is not a setting of the row mlp. Did you mean label?"),
        ('[grid.g]\nmodle = "mlp"', "modle is not a setting of the grid g. Did you mean model?"),
        (f"{MLP}lr = 0.1", "lr is not a setting of the row mlp. There are label, model,"),
        (MLP, "mlp.data must be a name; got None"),
        ('data = "digits"\n[row.mlp]\nlabel = "x"', "mlp.model must be a name; got None"),
        ('data = "digits"\n[row.mlp]\nmodel = 3', "mlp.model must be a name; got 3"),
        (f'data = "digits"\nmembers = 0\n{MLP}', "members must be a whole number of at least 1; got 0"),
        (f'data = "digits"\nhalves = 2.5\n{MLP}', "halves must be a whole number of at least 0; got 2.5"),
        (f'data = "digits"\n{MLP}ways = ["relaxed many"]', "ways must be of the form"),
        (f'data = "digits"\n{MLP}paper = [1, 2, 3, 4]', "mlp.paper must be coverage at three risks, NLL and accuracy"),
        (f'data = "digits"\n{MLP}paper = [1, 2, 3, 4, 5, 6]', "mlp.paper must be coverage at three risks"),
        (f'data = "digits"\n{MLP}paper = [1, 2, 3, 4, [5, 6, 7]]', "mlp.paper must be coverage at three risks"),
        (f'data = "digits"\n{MLP}paper = [1, 2, 3, 4, []]', "mlp.paper must be coverage at three risks"),
        (f'data = "digits"\n{MLP}paper_ensemble = [1]', "mlp.paper must be coverage at three risks"),
        (
            'data = "digits"\n[grid.g]\nmodel = "mlp"\nover = {bins = [3]}',
            "over must be a setting such as network.bins",
        ),
        ('data = "digits"\n[grid.g]\nmodel = "mlp"\nover = {"data.x" = [3]}', "over must be a setting such as"),
        (
            'data = "digits"\n[row."g/3"]\nmodel = "squad"\n[grid.g]\nmodel = "squad"\nover = {"network.bins" = [3]}',
            "row must be of a name of its own each; got small/g/3, small/g/3",
        ),
    ],
)
def test_a_file_that_is_wrong_is_named_with_what_is_wrong(tmp_path: Path, text: str, wrong: str) -> None:
    with pytest.raises(PlanError) as error:
        plan_of(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'small.toml'}: ")
    assert wrong in str(error.value)


#: Each is a mistake that was easily made.
MISTAKES = {
    "a probe that there is not": f'{HEAD}{MLP}probes = ["spreads"]',
    "one way that is no list": f'{HEAD}{MLP}ways = "mean"',
    "one probe that is no list": f'{HEAD}{MLP}probes = "spread"',
    "figures that are no list": f"{HEAD}{MLP}paper = 3",
    "figures that are no numbers": f'{HEAD}{MLP}paper = ["a", "b", "c", "d", "e"]',
    "a network that is no table": f"{HEAD}{MLP}network = 3",
    "a row that is no table": f"{HEAD}[row]\nmlp = 3",
    "quick that is no table": f"{HEAD}quick = 3\n{MLP}",
    "fewer rows than none": f"{HEAD.replace('150', '-1')}{MLP}",
    "the first of no trials": f'{HEAD}{MLP}search = "digits/mlp"\nfirst = 0',
    "a study of no model": f'{HEAD}{MLP}search = "digits"',
    "a grid over nothing": f'{HEAD}[grid.g]\nmodel = "mlp"',
    "a grid over no list": f'{HEAD}[grid.g]\nmodel = "squad"\nover = {{"network.bins" = 3}}',
    "a row left out that is not there": f'{HEAD}[quick]\nleave_out = ["mlpp"]\n{MLP}',
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_would_fail_after_hours_or_without_a_word_is_refused_on_reading(tmp_path: Path, mistake: str) -> None:
    with pytest.raises(PlanError):
        plan_of(tmp_path, MISTAKES[mistake], quick=True)


def test_settings_that_are_none_are_told_with_their_row(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, f"{HEAD}{MLP}training = {{max_epoch = 3}}")
    with pytest.raises(SquadError, match="max_epoch is not a setting of training") as error:
        plan.job(plan.rows[0])
    assert "small/mlp" in str(error.value)


def test_a_way_is_one_of_its_network(tmp_path: Path) -> None:
    """An MLP would answer "relaxed 32", by one pass, and the record would not tell."""
    plan = plan_of(tmp_path, f'{HEAD}{MLP}ways = ["relaxed 32"]')
    with pytest.raises(PlanError, match="small/mlp: sampling must be one of 'mean' for the network mlp"):
        plan.job(plan.rows[0])


def test_a_file_that_is_not_there_or_not_toml(tmp_path: Path) -> None:
    missing = tmp_path / "table9.toml"
    with pytest.raises(PlanError, match=r"table9\.toml cannot be read: No such file.*name their folder with --folder"):
        read_plan(missing)
    missing.mkdir()
    with pytest.raises(PlanError, match=r"table9\.toml cannot be read: Is a directory"):
        read_plan(missing)
    with pytest.raises(PlanError, match=r"small\.toml is not TOML: .*line 1"):
        plan_of(tmp_path, "data = digits")
    (tmp_path / "latin.toml").write_bytes(b'title = "caf\xe9"\n')
    with pytest.raises(PlanError, match=r"latin\.toml is not TOML"):
        read_plan(tmp_path / "latin.toml")


# -- grids


def test_a_grid_is_a_row_for_every_point(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        HEAD
        + MLP
        + '[grid.g]\nlabel = "SQUAD"\nmodel = "squad"\nways = ["relaxed 2"]\nnetwork = {bins = 5, limit = 2.0}\n'
        + '[grid.g.over]\n"network.bins" = [3, 7]\n"network.hidden" = [[4], [4, 5]]\n"training.lr" = [0.5]\n'
        + '[grid.plain]\nmodel = "squad"\nover = {"network.spacing" = ["linear"]}\n',
    )
    assert [row.name for row in plan.rows] == [
        "small/mlp",
        "small/g/3-4-0.5",
        "small/g/3-4x5-0.5",
        "small/g/7-4-0.5",
        "small/g/7-4x5-0.5",
        "small/plain/linear",
    ]
    assert [row.label for row in plan.rows] == [
        "mlp",
        "SQUAD: 3, 4, 0.5",
        "SQUAD: 3, 4x5, 0.5",
        "SQUAD: 7, 4, 0.5",
        "SQUAD: 7, 4x5, 0.5",
        "plain: linear",
    ]
    points = list(itertools.product([3, 7], [[4], [4, 5]]))
    for row, (bins, hidden) in zip(plan.rows[1:5], points, strict=True):
        settings = plan.job(row).settings
        # What it is over wins against what it says itself.
        assert settings["network"] == {"bins": bins, "limit": 2.0, "hidden": hidden}
        assert settings["training"] == {"lr": 0.5}
        assert row.ways == (Way("relaxed", 2),)


# -- --quick


QUICK = (
    HEAD
    + "members = 4\n[quick]\nmembers = 2\ntrain_rows = 50\ntraining = {max_epochs = 3}\nleave_out = %s\n"
    + '[row.a]\nmodel = "mlp"\nmembers = 7\ntraining = {max_epochs = 90, lr = 0.5}\n[row.ab]\nmodel = "mlp"\n'
    + '[grid.g]\nmodel = "squad"\nover = {"network.bins" = [3, 5]}\n'
)


def test_quick_has_the_last_word(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, QUICK % "[]", quick=True)
    assert plan.quick
    for row in plan.rows:
        job = plan.job(row)
        assert (job.settings["members"], job.train_rows, job.settings["training"]["max_epochs"]) == (2, 50, 3)
    assert plan.job(plan.rows[0]).settings["training"] == {"max_epochs": 3, "lr": 0.5}  # the rest of a table stays
    assert plan.job(plan.rows[2]).settings["network"] == {"bins": 3}
    slow = plan_of(tmp_path, QUICK % '["a", "g"]')
    assert [row.name for row in slow.rows] == ["small/a", "small/ab", "small/g/3", "small/g/5"]
    assert slow.job(slow.rows[0]).settings["members"] == 7
    assert slow.job(slow.rows[1]).settings["members"] == 4
    assert slow.job(slow.rows[1]).train_rows == 150
    assert slow.job(slow.rows[0]).settings["training"] == {"max_epochs": 90, "lr": 0.5}


@pytest.mark.parametrize(
    ("left_out", "left"),
    [
        ('["a"]', ["ab", "g/3", "g/5"]),  # not what only begins like it
        ('["g"]', ["a", "ab"]),
        ('["g/3", "ab"]', ["a", "g/5"]),
    ],
)
def test_quick_leaves_rows_and_whole_grids_out(tmp_path: Path, left_out: str, left: list[str]) -> None:
    plan = plan_of(tmp_path, QUICK % left_out, quick=True)
    assert [row.name for row in plan.rows] == [f"small/{name}" for name in left]


# -- where settings come from

SPEAKERS = ("table", "study", "row", "quick")


def spoken(tmp_path: Path, says: dict[str, str]) -> dict[str, Any]:
    """What training is set to where some say something about it, in TOML's words."""
    study_of(tmp_path, [trial(0, 0.5, {"training.lr": 0.125, **json.loads(says.get("study", "{}"))})])
    tables = {name: f"training = {{{says[name]}}}\n" if name in says else "" for name in ("table", "row", "quick")}
    text = (
        HEAD
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
    job = quick.job(quick.rows[0])
    assert job.source == {"from": "the defaults: there is no study digits/mlp"}
    assert job.settings.keys() == {"model", "members", "seed", "validation", "split_per_member"}
    study_of(tmp_path, [trial(number, 0.5, {"training.lr": 0.125}) for number in range(3)])
    job = quick.job(quick.rows[0])
    assert (job.source["from"], job.settings["training"]) == ("search", {"lr": 0.125})


def test_what_is_searched(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        HEAD
        + '[network]\nhidden = [4]\n[search]\nobjective = "aurc"\ntrials = 5\nmore = {"digits/squad" = 9}\n'
        + 'spaces = {"digits/squad" = "spaces/own.toml"}\n'
        + '[row.mlp]\nmodel = "mlp"\nsearch = "digits/mlp"\n[row.twice]\nmodel = "mlp"\nsearch = "digits/mlp"\n'
        + '[row.squad]\nmodel = "squad"\nsearch = "digits/squad"\n[row.none]\nmodel = "squad"\n',
    )
    mlp, squad = plan.studies().values()
    assert list(plan.studies()) == ["digits/mlp", "digits/squad"]
    assert (mlp.data, mlp.model, mlp.trials, mlp.objective, mlp.space) == ("digits", "mlp", 5, "aurc", None)
    assert (squad.model, squad.trials, squad.space) == ("squad", 9, "spaces/own.toml")
    assert mlp.settings == {"validation": 0.25, "network": {"hidden": [4]}}


# -- what is the same job


def job_of(tmp_path: Path, text: str) -> Job:
    plan = plan_of(tmp_path, text)
    return plan.job(plan.rows[0])


SAME = HEAD + 'halves = 4\n[row.mlp]\nmodel = "mlp"\nways = ["mean"]\nprobes = ["spread"]\ntraining = {lr = 0.1}\n'
CHANGES = {
    "data": ('data = "digits"', 'data = "svhn"'),
    "validation": ("validation = 0.25", "validation = 0.2"),
    "rows": ("train_rows = 150", "train_rows = 151"),
    "test rows": ("halves = 4", "halves = 4\ntest_rows = 9"),
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
    described = job_of(tmp_path, SAME).described()
    assert json.loads(json.dumps(described)) == described
    assert job_of(tmp_path, SAME).described() == described
    # What people call it, and what the paper has, is not what is run.
    words = 'label = "Other"\ngroup = "further"\npaper = [1, 2, 3, 4, 5]\ntraining ='
    assert job_of(tmp_path, SAME.replace("training =", words)).described() == described


@pytest.mark.parametrize("what", CHANGES)
def test_another_setting_is_another_job(tmp_path: Path, what: str) -> None:
    changed = SAME.replace(*CHANGES[what])
    assert changed != SAME
    assert job_of(tmp_path, changed).described() != job_of(tmp_path, SAME).described()


def test_another_best_trial_is_another_job(tmp_path: Path) -> None:
    study_of(tmp_path, [trial(0, 0.5, {"training.lr": 0.1}), trial(1, 0.4), trial(2, 0.4), trial(3, 0.9)])
    one = job_of(tmp_path, f"{STUDIED}first = 3\n").described()
    other = job_of(tmp_path, f"{STUDIED}first = 4\n").described()
    assert one["fit"] != other["fit"]
    assert one["source"] != other["source"]


# -- the repository's own


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_the_papers_plans(name: str, quick: bool) -> None:
    plan = read_plan(PAPER / f"{name}.toml", quick=quick)
    assert plan.rows
    for row in plan.rows:
        if row.study is not None and not plan.has(row.study) and not quick:
            continue
        job = plan.job(row)
        settings = fit_settings(job.settings)
        assert settings.network.name == job.settings["model"]
        for way in row.ways:
            assert way.sampling in settings.network.samplings
        if row.study is not None and plan.has(row.study):
            # It is the best of its first trials, by the study's own record.
            trials = [one for one in read(plan.folder / "search" / row.study.name).counted if one.value is not None]
            assert job.source["value"] == max(one.value for one in trials[: row.first] if one.value is not None)
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


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ('model = "mlp"\nprobes = ["information"]', "information for mlp"),
        ('model = "squad"\nnetwork = {hidden = [4]}\nprobes = ["activation"]', "activation of 4 units"),
        ('model = "mlp"\nways = ["relaxed 3"]', "sampling must be one of"),
    ],
)
def test_what_a_network_has_not_is_found_out_before_it_is_trained(tmp_path: Path, row: str, wrong: str) -> None:
    plan = plan_of(tmp_path, f"{HEAD}[row.one]\n{row}\n")
    with pytest.raises(PlanError, match=f"small/one: .*{wrong}"):
        plan.job(plan.rows[0])


def test_a_label_that_would_break_a_table(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"without \|"):
        plan_of(tmp_path, f'{HEAD}{MLP}label = "a|b"')
