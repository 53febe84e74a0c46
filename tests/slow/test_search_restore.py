"""A long study resumed from its record alone."""

from pathlib import Path

from tests.search.test_restore_study import tune, without_database


def test_a_search_is_resumed(tmp_path: Path) -> None:
    whole, out = tmp_path / "study", tmp_path / "sent" / "study"
    first = tune(whole, trials=11, prune=True)
    out.parent.mkdir()
    without_database(whole, out)
    (out / "study.db").touch()  # empty is as good as none
    (out / "study.db-wal").write_bytes(b"of another database")
    found, expected = (tune(place, trials=16, prune=True) for place in (out, whole))
    assert [trial.settings for trial in found.trials] == [trial.settings for trial in expected.trials]
    assert [trial.value for trial in found.trials] == [trial.value for trial in expected.trials]
    assert found.trials[:11] == first.trials
