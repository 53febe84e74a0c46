"""Every method against its literal second writing, on more samples than the fast suite has."""

import pytest

from tests.selective import test_brute


@pytest.mark.parametrize("method", test_brute.METHODS)
def test_one_rule_is_that_of_the_literal_method(method: str) -> None:
    test_brute.test_one_rule_is_that_of_the_literal_method(method, 1000)
