"""Storages: SQLite settings, errors, and Optuna's global state."""

import logging
import math
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import sqlalchemy

from squad.errors import ArgumentError, SquadError
from squad.search.storage import SearchError, file_url, open_storage
from tests.search.workers import (
    source,
    storage,
    work,
)


class TestStorages:
    def test_a_file_may_be_called_anything(self, tmp_path: Path) -> None:
        folder = tmp_path / "a {b} ?x=1&y #c% %20 ü"
        folder.mkdir()
        mine = source(file_url(folder / "study.db"), 2)
        work(mine)
        assert [path.name for path in folder.glob("*.db")] == ["study.db"]

    def test_paths_are_absolute(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert file_url("study.db") == file_url(tmp_path / "study.db")

    def test_write_ahead_log_and_immediate_transactions(self, url: str) -> None:
        with storage(url).engine.connect() as connection:
            asked = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "busy_timeout")
            }
            # This connection has begun a transaction and written nothing; others still cannot write.
            second = sqlalchemy.create_engine(url, connect_args={"timeout": 0.05})
            with second.connect() as waits, pytest.raises(sqlalchemy.exc.OperationalError, match="locked"):
                waits.exec_driver_sql("DELETE FROM trials")
            second.dispose()
        assert asked == {"journal_mode": "wal", "synchronous": 1, "busy_timeout": 60_000}

    @pytest.mark.parametrize(
        ("bad", "said"),
        [
            ("nonsense", "storage must be sqlite:///FILE or postgresql"),
            ("", "storage must be sqlite:///FILE"),
            ("mysql://u:secret@h/db", "storage must be sqlite:///FILE or postgresql"),
            ("postgresql://u:secret@h:port/db", "storage must be"),
            ("postgresql://u:sec@ret@h/db", "@ in a password.*%40"),
            ("postgresql://u:se/cret@h@h/db", "storage must be|@ in a password"),
            ("sqlite://", "storage must be sqlite:///FILE.*memory"),
            ("sqlite:///:memory:", "storage must be sqlite:///FILE.*memory"),
            ("postgresql+nothing://u:secret@h/db", "cannot be used"),
            ("postgresql://u:secret@127.0.0.1:1/db", "cannot be used: .*server.*password"),
            ("postgres://u:secret@127.0.0.1:1/db", "cannot be used: .*server.*password"),
            ("postgresql://127.0.0.1:1/db?user=u&password=secret", "cannot be used: .*server.*password"),
            ("mysql://h/db?password=secret&user=u", "storage must be"),
        ],
    )
    def test_errors_are_one_line_without_the_password(self, bad: str, said: str) -> None:
        with pytest.raises(SquadError, match=said) as caught:
            open_storage(bad, stale_after=60)
        assert "sec" not in str(caught.value).replace("second", "")
        assert "\n" not in str(caught.value)

    def test_unusable_files(self, tmp_path: Path) -> None:
        with pytest.raises(SearchError, match=r"unable to open database file\. .*folder"):
            open_storage(file_url(tmp_path / "none" / "study.db"), stale_after=60)
        (tmp_path / "text.db").write_text("no database at all, but a text that is long enough to look into" * 20)
        with pytest.raises(SearchError, match="file is not a database"):
            open_storage(file_url(tmp_path / "text.db"), stale_after=60)

    def test_a_schema_of_another_version_of_optuna(self, url: str) -> None:
        with storage(url).engine.begin() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'v9.9.9'")
        with pytest.raises(SearchError, match="no longer compatible"):
            open_storage(url, stale_after=60)

    def test_a_database_that_fails_while_working(self, url: str) -> None:
        mine = source(url, 3)
        with mine._storage._backend.engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE trial_heartbeats")
        with pytest.raises(SearchError, match=r"database failed: no such table: trial_heartbeats\. .*resume"):
            mine.ask()

    @pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
    def test_stale_after(self, url: str, bad: float) -> None:
        with pytest.raises(ArgumentError, match=r"stale_after .*1.*got"):
            open_storage(url, stale_after=bad)

    @pytest.mark.parametrize(("package", "extra"), [("optuna", "search"), ("psycopg", "postgres")])
    def test_missing_packages(self, monkeypatch: pytest.MonkeyPatch, package: str, extra: str) -> None:
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(SearchError, match=rf"pip install 'squad-torch\[{extra}\]'"):
            open_storage("postgresql://u:p@127.0.0.1:1/db", stale_after=60)


class TestGlobalState:
    def test_logging_and_warnings_are_restored(self, url: str, capfd: pytest.CaptureFixture[str]) -> None:
        logger = logging.getLogger("optuna")
        before = (logger.level, list(logger.handlers), list(warnings.filters))
        mine = source(url, 2, shared=True)
        work(mine)
        assert (logger.level, list(logger.handlers), list(warnings.filters)) == before
        assert capfd.readouterr() == ("", "")

    def test_heavy_packages_are_imported_lazily(self) -> None:
        code = (
            "import sys, squad.search.study, squad.search.cluster, squad.search.objective\n"
            "from squad.search.space import Space\n"
            "Space.default('squad').most('network.bins')\n"
            "print([name for name in ('optuna', 'ray', 'sqlalchemy', 'psycopg') if name in sys.modules])"
        )
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == "[]"
