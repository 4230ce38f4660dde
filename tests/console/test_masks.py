"""Masks hide fields, wherever they are, and never change what they are given."""

import pytest

from moldau.console.masks import HIDDEN, Masks, parse_mask


def masks(*rules: str) -> Masks:
    return Masks(parse_mask(rule) for rule in rules)


def test_fields_are_hidden() -> None:
    inner = {"password": "x", "deep": {"password": "y"}}
    value = {"card": "4111", "name": "Ada", "inner": inner, "list": [{"card": 1}]}
    topic = masks("customers*:value.card", "*:value.inner.*.password", "*:value.list.card").of("customers-eu")
    assert topic.applied("value", value) == {
        "card": HIDDEN,
        "name": "Ada",
        "inner": {"password": "x", "deep": {"password": HIDDEN}},
        "list": [{"card": HIDDEN}],
    }
    assert value["card"] == "4111"


def test_rules_are_for_their_topics_and_parts() -> None:
    topic = masks("orders:key", "*:headers.auth").of("orders")
    assert topic.applied("key", "k") == HIDDEN
    assert topic.applied("value", "v") == "v"
    assert (topic.header("auth", "x"), topic.header("trace", "y")) == (HIDDEN, "y")
    assert topic.hides_part("key")
    assert not masks("orders:key").of("clicks").hides_part("key")


def test_names_may_have_dots() -> None:
    topic = masks("*:headers.x.auth.*", "*:value.card.number", "*:value.inner.*.key").of("t")
    assert topic.header("x.auth.token", "s") == HIDDEN
    assert topic.header("x", "s") == "s"
    value = {"card.number": 1, "card": {"number": 2, "kind": 3}, "inner": {"a.key": 4, "b": {"key": 5}}}
    assert topic.applied("value", value) == {
        "card.number": HIDDEN,
        "card": {"number": HIDDEN, "kind": 3},
        "inner": {"a.key": HIDDEN, "b": {"key": HIDDEN}},
    }


def test_all_headers_are_hidden_by_a_rule_without_a_name() -> None:
    assert masks("*:headers").of("t").header("trace", "y") == HIDDEN


def test_a_copy_shows_no_more_than_the_topic() -> None:
    rules = masks("orders*:key", "orders:value.card")
    assert rules.hide_as_much("orders", of="orders")
    assert not rules.hide_as_much("orders-fork", of="orders")
    assert rules.hide_as_much("orders-fork", of="orders-eu")
    assert rules.hide_as_much("anything", of="clicks")


def test_a_field_of_something_that_has_none_hides_it_all() -> None:
    topic = masks("*:value.card").of("t")
    assert topic.applied("value", "4111 1111") == HIDDEN
    assert topic.applied("value", [1, 2]) == [HIDDEN, HIDDEN]
    assert topic.applied("value", None) is None


@pytest.mark.parametrize(
    "wrong", ["", "orders", ":value", "orders:", "orders:body", "orders:value.", "o:value..x"]
)
def test_what_is_no_mask(wrong: str) -> None:
    with pytest.raises(ValueError, match="is no mask"):
        parse_mask(wrong)
