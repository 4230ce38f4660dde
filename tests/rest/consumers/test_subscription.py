"""Topics by name or by pattern."""

import pytest

from moldau.rest.consumers.subscription import Subscription, read_subscription
from moldau.web.problems import Problem


def test_names():
    found = read_subscription({"topics": ["b", "a", "b"]})
    assert found == Subscription(("a", "b"))
    assert found.topics() == ("a", "b")


def test_a_pattern_matches_whole_names():
    chosen = read_subscription({"topic_pattern": "shop-.+"}).topics()
    assert callable(chosen)
    assert list(chosen(["shop-a", "shop-", "a-shop-b", "shop-b"])) == ["shop-a", "shop-b"]


def test_a_pattern_takes_linear_time():
    chosen = read_subscription({"topic_pattern": "(a*)*b"}).topics()
    assert callable(chosen)
    assert list(chosen(["a" * 249])) == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"topics": []},
        {"topics": "t"},
        {"topics": [""]},
        {"topics": ["\ud800"]},
        {"topics": ["x" * 250]},
        {"topic_pattern": "["},
        {"topic_pattern": "x" * 2000},
    ],
)
def test_what_is_refused(body):
    with pytest.raises(Problem) as refused:
        read_subscription(body)
    assert refused.value.status == 422
