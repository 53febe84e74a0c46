"""Studies: resumed by the same search, refused for another, and races while creating them."""

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import optuna
import pytest

from squad.search.storage import SearchError, quiet_optuna
from squad.search.study import load_study, open_study
from tests.search.workers import META, storage


class TestStudies:
    def test_the_same_search_resumes_and_another_is_refused(self, url: str) -> None:
        kept = storage(url)
        meta = {"fingerprint": "1", "space": {"network": {"bins": [5, 7]}}, "objective": "aurc", "seed": 1}
        made = open_study(kept, "study", meta)
        assert open_study(kept, "study", {**meta, "workers": 3})._study_id == made._study_id
        assert load_study(kept, "study")[1] == meta
        other = {"fingerprint": "2", "space": {"network": {"bins": [5, 9]}}, "objective": "aurc", "device": "cpu"}
        with pytest.raises(SearchError) as caught:
            open_study(kept, "study", other)
        differences = (
            "Study 'study' belongs to another search: space.network.bins is [5, 7] there and [5, 9] here; "
            'seed is 1 there and not set here; device is not set there and "cpu" here. '
        )
        assert str(caught.value).startswith(differences)
        assert re.search("--out or --study.*--restart", str(caught.value))
        with pytest.raises(SearchError, match="fingerprints differ"):
            open_study(kept, "study", {**meta, "fingerprint": "3"})
        with pytest.raises(SearchError, match=r"and 15 more"):
            open_study(kept, "study", {**meta, "fingerprint": "3"} | {f"k{n}": n for n in range(20)})

    def test_long_differences_are_shortened(self, url: str) -> None:
        kept = storage(url)
        open_study(kept, "study", {"fingerprint": "1", "notes": ["a" * 500]})
        with pytest.raises(SearchError) as caught:
            open_study(kept, "study", {"fingerprint": "2", "notes": ["b" * 500]})
        assert len(str(caught.value)) < 400

    def test_a_killed_creator_is_replaced(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("squad.search.study.META_TIMEOUT", 0.1)
        kept = storage(url)
        with quiet_optuna():
            optuna.create_study(storage=kept, study_name="study", direction="maximize")
        open_study(kept, "study", META)
        assert load_study(kept, "study")[1] == META

    def test_a_quick_creator_is_recognized(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """It writes the description and asks for a trial while another worker looks for both."""
        kept, look = storage(url), optuna.Study.get_trials
        with quiet_optuna():
            maker = optuna.create_study(storage=kept, study_name="study", direction="maximize")

        def late(study: optuna.Study, *args: Any, **options: Any) -> Any:
            if not maker.user_attrs:
                maker.set_user_attr("squad", META)
                maker.add_trial(optuna.create_trial(value=1.0, params={}, distributions={}))
            return look(study, *args, **options)

        monkeypatch.setattr(optuna.Study, "get_trials", late)
        assert open_study(kept, "study", META)._study_id == maker._study_id

    def test_a_study_of_another_program_is_refused(self, url: str) -> None:
        kept = storage(url)
        with quiet_optuna():
            optuna.create_study(storage=kept, study_name="study").add_trial(
                optuna.create_trial(value=1.0, params={}, distributions={})
            )
        with pytest.raises(SearchError, match=r"not created by squad.*--study"):
            open_study(kept, "study", META)

    def test_two_different_searches_start_at_once(self, nothing: str) -> None:
        def one(n: int) -> str:
            try:
                open_study(storage(nothing), "study", {"fingerprint": str(n % 2)})
            except SearchError as error:
                return str(error)
            return str(n % 2)

        with ThreadPoolExecutor(6) as pool, quiet_optuna():
            found = list(pool.map(one, range(6)))
        assert len([each for each in found if each in "01"]) == 3
        assert len([each for each in found if "another search" in each]) == 3
