"""Every method compared with its literal second implementation, on more samples than in the fast suite."""

import pytest

from tests.selective import test_brute


@pytest.mark.parametrize("method", test_brute.METHODS)
def test_one_rule_is_that_of_the_literal_method(method: str) -> None:
    test_brute.test_one_rule_is_that_of_the_literal_method(method, 1320 if method == "band" else 1000)


@pytest.mark.parametrize(("targets", "groups", "harms"), [(3, 1, 1), (1, 3, 1), (1, 1, 2), (2, 2, 3)])
def test_several_rules_of_a_band_are_those_of_the_literal_method(targets: int, groups: int, harms: int) -> None:
    test_brute.test_several_rules_are_those_of_the_literal_method("band", targets, groups, harms, inputs=200)
