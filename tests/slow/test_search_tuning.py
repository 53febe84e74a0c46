"""squad.tune: settings that break runs, groups of tables, and interrupts."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from squad.data.tables import Table
from squad.errors import ArgumentError
from squad.search.search_record import read
from squad.train.slots import Slots
from tests.search import test_tuning as fast
from tests.search.test_tuning import SMALL, rows, tune


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "study"


def test_the_groups_of_a_table_are_its_column(out: Path) -> None:
    x, labels = rows()
    sites = [f"s{row // 4}" for row in range(len(x))]
    frame = pd.DataFrame(x, columns=list("abcde")).assign(y=labels, site=sites)
    given = tune(out, Table.of(frame), labels, target="y", group="site", groups=sites)
    digest = given.record.settings["data"]["sha256"]  # includes the split
    for name, table, options in (
        ("table", Table.of(frame), {"group": "site"}),
        ("frame", frame, {"group": "site"}),
        ("settings", frame, {"settings": {**SMALL, "group": "site"}}),
    ):
        found = tune(out.with_name(name), table, labels, target="y", **options)
        assert found.record.settings["data"]["sha256"] == digest
    apart = tune(out.with_name("apart"), frame, labels, target="y", drop=["site"])
    assert apart.record.settings["data"]["sha256"] != digest
    with pytest.raises(ArgumentError, match=r"group must be a column.*got 'site' with ndarray.*groups"):
        tune(out.with_name("array"), x, labels, group="site")
    with pytest.raises(ArgumentError, match=r"x must be .*got a data frame .*'site'.*no target.*Table\.of"):
        tune(out.with_name("words"), frame, labels)


def test_settings_that_break_a_run_are_not_retried_forever(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is too small for some settings: runs end with the error, but not forever."""
    real = Slots.put

    def put(slots: Slots, slot: int, run: Any) -> None:
        if run.network.bins > 5:
            raise torch.OutOfMemoryError("CUDA out of memory")
        real(slots, slot, run)

    monkeypatch.setattr(Slots, "put", put)
    space = {"network": {"bins": {"choices": [5, 7]}, "init_scale": {"low": 1.0, "high": 2.0}}}
    for _ in range(60):
        try:
            found = tune(out, space=space, trials=4, slots=2)
            break
        except torch.OutOfMemoryError:
            assert not read(out).best() or read(out).best().settings["network.bins"] == 5  # type: ignore[union-attr]
    else:
        pytest.fail("the same settings came back every time")
    assert {trial.settings["network.bins"] for trial in found.measured} == {5}
    assert len(found.measured) == 4
    assert any(trial.state == "failed" for trial in found.trials)


@pytest.mark.parametrize(("name", "calls"), [("clear", 1), ("launch", 1), ("wait", 3)])
def test_an_interrupt_anywhere_in_training(out: Path, monkeypatch: pytest.MonkeyPatch, name: str, calls: int) -> None:
    fast.test_an_interrupt_anywhere_in_training(out, monkeypatch, name, calls)
