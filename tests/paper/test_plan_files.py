"""Plan files: their contents, and errors in them."""

import itertools
import re
from pathlib import Path

import pytest

from experiments.paper.jobs.plan import PlanError, PredictionMode
from experiments.paper.jobs.plan_files import read_plan
from squad.errors import SquadError
from squad.settings import fit_settings
from tests.paper.examples import MLP, PLAN_START, plan_of


def test_the_contents_of_a_file(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        'title = "A small one"\n'
        + PLAN_START
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
    assert one.modes == (PredictionMode("mean", 1),)
    assert two.modes == ()
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
    # Every member has its own seed and split.
    fit = fit_settings(first.settings)
    assert (fit.members, fit.seed, fit.validation, fit.split_per_member) == (3, 0, 0.25, True)
    assert fit_settings(second.settings).members == 1


def test_defaults_of_a_file(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, 'data = "digits"\n' + MLP)
    assert plan.title == "small"
    job = plan.job(plan.rows[0])
    assert (job.halves, job.train_rows, job.probes) == (0, None, ())
    assert job.settings == {"model": "mlp", "members": 1, "seed": 0, "validation": 0.1, "split_per_member": True}
    assert job.source == {"from": "the defaults and the file"}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (f"dat = 3\n{MLP}", "dat is not a setting of a plan. Did you mean data?"),
        (f"[quick]\nmember = 3\n{MLP}", "member is not a setting of quick. Did you mean members?"),
        (f"[search]\ntrial = 3\n{MLP}", "trial is not a setting of search. Did you mean trials?"),
        (f"{MLP}lable = 'x'", "lable is not a setting of the row mlp. Did you mean label?"),
        ('[grid.g]\nmodle = "mlp"', "modle is not a setting of the grid g. Did you mean model?"),
        (f"{MLP}lr = 0.1", "lr is not a setting of the row mlp.*label, model,"),
        (MLP, "mlp.data .*got None"),
        ('data = "digits"\n[row.mlp]\nlabel = "x"', "mlp.model .*got None"),
        ('data = "digits"\n[row.mlp]\nmodel = 3', "mlp.model .*got 3"),
        (f'data = "digits"\nmembers = 0\n{MLP}', "members .*1, got 0"),
        (f'data = "digits"\nhalves = 2.5\n{MLP}', "halves .*0, got 2.5"),
        (f'data = "digits"\n{MLP}ways = ["relaxed many"]', "ways .*'relaxed many'"),
        (f'data = "digits"\n{MLP}paper = [1, 2, 3, 4]', r"mlp.paper .*three risks.*got \[1, 2, 3, 4\]"),
        (f'data = "digits"\n{MLP}paper = [1, 2, 3, 4, 5, 6]', r"mlp.paper .*got .*5, 6\]"),
        (f'data = "digits"\n{MLP}paper = [1, 2, 3, 4, [5, 6, 7]]', r"mlp.paper .*got .*7\]\]"),
        (f'data = "digits"\n{MLP}paper = [1, 2, 3, 4, []]', r"mlp.paper .*got .*\[\]\]"),
        (f'data = "digits"\n{MLP}paper_ensemble = [1]', r"mlp.paper .*got \[1\]"),
        (
            'data = "digits"\n[grid.g]\nmodel = "mlp"\nover = {bins = [3]}',
            "over .*network.bins, got 'bins'",
        ),
        ('data = "digits"\n[grid.g]\nmodel = "mlp"\nover = {"data.x" = [3]}', "over .*got 'data.x'"),
        (
            'data = "digits"\n[row."g/3"]\nmodel = "squad"\n[grid.g]\nmodel = "squad"\nover = {"network.bins" = [3]}',
            "unique, got small/g/3, small/g/3",
        ),
    ],
)
def test_errors_name_the_file_and_the_entry(tmp_path: Path, text: str, wrong: str) -> None:
    with pytest.raises(PlanError) as error:
        plan_of(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'small.toml'}: ")
    assert re.search(wrong, str(error.value))


#: Mistakes that are easily made, each with the entry that the error must name.
MISTAKES = {
    "unknown probe": (f'{PLAN_START}{MLP}probes = ["spreads"]', "probes .*'spreads'"),
    "modes not a list": (f'{PLAN_START}{MLP}ways = "mean"', r"mlp\.ways .*'mean'"),
    "probes not a list": (f'{PLAN_START}{MLP}probes = "spread"', r"mlp\.probes .*'spread'"),
    "results not a list": (f"{PLAN_START}{MLP}paper = 3", r"mlp\.paper .*got 3"),
    "results not numbers": (f'{PLAN_START}{MLP}paper = ["a", "b", "c", "d", "e"]', r"mlp\.paper .*'e'"),
    "network not a table": (f"{PLAN_START}{MLP}network = 3", "network .*table, got 3"),
    "row not a table": (f"{PLAN_START}[row]\nmlp = 3", "mlp .*table, got 3"),
    "quick not a table": (f"{PLAN_START}quick = 3\n{MLP}", "quick .*table, got 3"),
    "negative number of rows": (f"{PLAN_START.replace('150', '-1')}{MLP}", "train_rows .*got -1"),
    "best of no trials": (f'{PLAN_START}{MLP}search = "digits/mlp"\nfirst = 0', "first .*got 0"),
    "study without a model": (f'{PLAN_START}{MLP}search = "digits"', "search .*'digits'"),
    "grid over nothing": (f'{PLAN_START}[grid.g]\nmodel = "mlp"', "over .*got {}"),
    "grid not over a list": (f'{PLAN_START}[grid.g]\nmodel = "squad"\nover = {{"network.bins" = 3}}', "over .*got .*3"),
    "leave_out a number": (f"{PLAN_START}[quick]\nleave_out = 3\n{MLP}", r"quick\.leave_out .*got 3"),
    "leave_out a string": (f'{PLAN_START}[quick]\nleave_out = "mlp"\n{MLP}', r"quick\.leave_out .*'mlp'"),
    "leave_out an unknown row": (f'{PLAN_START}[quick]\nleave_out = ["mlpp"]\n{MLP}', "leave_out .*'mlpp'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_that_would_fail_late_or_silently_are_refused_on_reading(tmp_path: Path, mistake: str) -> None:
    text, match = MISTAKES[mistake]
    with pytest.raises(PlanError, match=match):
        plan_of(tmp_path, text, quick=True)


def test_unknown_settings_name_their_row(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, f"{PLAN_START}{MLP}training = {{max_epoch = 3}}")
    with pytest.raises(SquadError, match="max_epoch") as error:
        plan.job(plan.rows[0])
    assert "small/mlp" in str(error.value)


def test_a_mode_must_suit_its_network(tmp_path: Path) -> None:
    """Otherwise an MLP would predict "relaxed 32" in one pass, and the record would not show it."""
    plan = plan_of(tmp_path, f'{PLAN_START}{MLP}ways = ["relaxed 32"]')
    with pytest.raises(PlanError, match=r"small/mlp: sampling .*'mean'.*got 'relaxed'"):
        plan.job(plan.rows[0])


def test_missing_files_and_invalid_toml(tmp_path: Path) -> None:
    missing = tmp_path / "table9.toml"
    with pytest.raises(PlanError, match=r"table9\.toml .*No such file.*--folder"):
        read_plan(missing)
    missing.mkdir()
    with pytest.raises(PlanError, match=r"table9\.toml .*Is a directory"):
        read_plan(missing)
    with pytest.raises(PlanError, match=r"small\.toml .*TOML.*line 1"):
        plan_of(tmp_path, "data = digits")
    (tmp_path / "latin.toml").write_bytes(b'title = "caf\xe9"\n')
    with pytest.raises(PlanError, match=r"latin\.toml .*TOML"):
        read_plan(tmp_path / "latin.toml")


# -- grids


def test_a_grid_has_one_row_per_combination(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        PLAN_START
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
        # The varied values override those of the grid.
        assert settings["network"] == {"bins": bins, "limit": 2.0, "hidden": hidden}
        assert settings["training"] == {"lr": 0.5}
        assert row.modes == (PredictionMode("relaxed", 2),)


# -- --quick


QUICK = (
    PLAN_START
    + "members = 4\n[quick]\nmembers = 2\ntrain_rows = 50\ntraining = {max_epochs = 3}\nleave_out = %s\n"
    + '[row.a]\nmodel = "mlp"\nmembers = 7\ntraining = {max_epochs = 90, lr = 0.5}\n[row.ab]\nmodel = "mlp"\n'
    + '[grid.g]\nmodel = "squad"\nover = {"network.bins" = [3, 5]}\n'
)


def test_quick_overrides_everything(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, QUICK % "[]", quick=True)
    assert plan.quick
    for row in plan.rows:
        job = plan.job(row)
        assert (job.settings["members"], job.train_rows, job.settings["training"]["max_epochs"]) == (2, 50, 3)
    assert plan.job(plan.rows[0]).settings["training"] == {
        "max_epochs": 3,
        "lr": 0.5,
    }  # other settings of the table stay
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
        ('["a"]', ["ab", "g/3", "g/5"]),  # not rows whose names begin with it
        ('["g"]', ["a", "ab"]),
        ('["g/3", "ab"]', ["a", "g/5"]),
    ],
)
def test_quick_leaves_out_rows_and_grids(tmp_path: Path, left_out: str, left: list[str]) -> None:
    plan = plan_of(tmp_path, QUICK % left_out, quick=True)
    assert [row.name for row in plan.rows] == [f"small/{name}" for name in left]


def test_labels_cannot_break_a_table(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"mlp\.label .*'a\|b'"):
        plan_of(tmp_path, f'{PLAN_START}{MLP}label = "a|b"')


# -- searches


def test_studies(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        PLAN_START
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
