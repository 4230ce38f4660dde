"""Topics for consumer groups: what exists, what matches, and nothing that is out of date."""

from collections.abc import Iterable

import pytest

from moldau.coordinators.groups.consumer.cluster_view import ClusterView, subscription_program
from moldau.coordinators.groups.consumer.metadata_hash import group_hash, topic_hash
from moldau.coordinators.groups.environment import ConsumerConfig, Environment, Topic
from moldau.protocol.errors import ErrorCode, KafkaError

ORDERS, USERS = Topic("orders", b"o" * 16, 3), Topic("users", b"u" * 16, 1)


class Known:
    """Topics that a test may change; counts how often they are looked for."""

    def __init__(self, *topics: Topic) -> None:
        self.all = list(topics)
        self.asked = 0

    def by_name(self, name: str) -> Topic | None:
        self.asked += 1
        return next((each for each in self.all if each.name == name), None)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return next((each for each in self.all if each.topic_id == topic_id), None)

    def names(self) -> Iterable[str]:
        self.asked += 1
        return [each.name for each in self.all]


@pytest.fixture
def topics() -> Known:
    return Known(USERS, ORDERS)


@pytest.fixture
def view(topics: Known) -> ClusterView:
    return ClusterView(Environment(lambda: topics, lambda group_id: ConsumerConfig(len(group_id))))


def test_only_topics_that_exist(view: ClusterView) -> None:
    assert view.existing(["orders", "gone", "users"]) == [ORDERS, USERS]
    assert view.ids(frozenset({"orders", "gone"})) == {ORDERS.topic_id}
    assert view.hash_of(["gone", "users"]) == group_hash({"users": topic_hash(*USERS)})
    assert view.config_of("four").session_timeout_ms == 4


def test_the_order_of_names_says_nothing(view: ClusterView) -> None:
    assert view.hash_of(["orders", "users"]) == view.hash_of(["users", "orders"]) != view.hash_of(["users"])


@pytest.mark.parametrize(
    ("expression", "names"),
    [(".*", ("orders", "users")), ("o.*", ("orders",)), ("order", ()), ("orders|users", ("orders", "users"))],
)
def test_an_expression_matches_whole_names(
    view: ClusterView, expression: str, names: tuple[str, ...]
) -> None:
    assert view.matching(expression) == names


def test_an_expression_that_is_none() -> None:
    with pytest.raises(KafkaError, match=r"SubscribedTopicRegex `\(` is not a valid regular expr") as refused:
        subscription_program("(")
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_nothing_is_looked_for_twice_until_topics_change(view: ClusterView, topics: Known) -> None:
    both = frozenset({"orders", "users"})
    view.ids(both)
    view.matching(".*")
    before, asked = view.hash_of(both), topics.asked
    assert (view.ids(both), view.matching(".*")) == ({b"o" * 16, b"u" * 16}, ("orders", "users"))
    assert topics.asked == asked
    topics.all = [Topic("orders", b"n" * 16, 3), Topic("users", b"u" * 16, 2), Topic("new", b"x" * 16, 1)]
    view.changed()
    assert view.version == 1
    assert view.ids(both) == {b"n" * 16, b"u" * 16}
    assert view.matching(".*") == ("new", "orders", "users")
    assert view.hash_of(both) != before


def test_the_ids_that_are_kept_have_a_bound(view: ClusterView) -> None:
    for number in range(3_000):
        view.ids(frozenset({"orders", f"gone-{number}"}))
    assert len(view._ids) <= 1_000
    assert view.ids(frozenset({"orders"})) == {ORDERS.topic_id}


@pytest.mark.slow
def test_the_expressions_that_are_kept_have_a_bound(view: ClusterView) -> None:
    for number in range(1_500):
        view.matching(f"orders{{{number % 3}}}|x{number}")
    assert len(view._matching) <= 1_000
