"""Buckets of tokens, with a clock that the test steps."""

import pytest

from moldau.web.problems import Problem
from moldau.web.rates import Rates


def test_a_burst_and_then_one_at_a_time():
    rates = Rates(2.0, 3)
    for _ in range(3):
        rates.take("ann", 100.0)
    with pytest.raises(Problem) as refused:
        rates.take("ann", 100.0)
    assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "1"})
    rates.take("bob", 100.0)
    rates.take("ann", 100.5)
    with pytest.raises(Problem):
        rates.take("ann", 100.5)
    for _ in range(3):
        rates.take("ann", 1000.0)  # never more than the burst


def test_whoever_only_looks_takes_nothing():
    rates = Rates(1.0, 1)
    for _ in range(5):
        rates.check("ann", 100.0)
    rates.take("ann", 100.0)
    with pytest.raises(Problem) as refused:
        rates.check("ann", 100.0)
    assert refused.value.headers == {"Retry-After": "1"}
    rates.check("ann", 101.0)
    rates.check("bob", 100.0)
    Rates(0, 1).check("ann", 0.0)


def test_zero_is_any_number():
    rates = Rates(0, 1)
    for _ in range(1000):
        rates.take("ann", 0.0)


def test_clients_that_are_long_gone_are_forgotten():
    rates = Rates(0.001, 1, max_clients=2)
    rates.take("a", 0.0)
    rates.take("b", 0.0)
    rates.take("c", 0.0)
    rates.take("a", 0.0)
    with pytest.raises(Problem):
        rates.take("a", 0.0)
