from typing import Any

import pytest


def test_configs_of_a_topic(moldau: Any, moldau_json: Any) -> None:
    moldau("topics", "create", "orders")
    said = moldau("configs", "set", "orders", "retention.ms=1000", "cleanup.policy=compact,delete").stdout
    assert said.splitlines() == [
        "Set retention.ms=1000 on topic orders",
        "Set cleanup.policy=compact,delete on topic orders",
    ]
    own = {e["name"]: e for e in moldau_json("configs", "get", "orders")}
    assert own["retention.ms"] == {
        "name": "retention.ms",
        "value": "1000",
        "source": "DYNAMIC_TOPIC_CONFIG",
        "read_only": False,
        "sensitive": False,
        "type": "LONG",
    }
    table = moldau("configs", "get", "orders").stdout
    assert any(line.split() == ["retention.ms", "1000", "topic"] for line in table.splitlines())
    assert (
        moldau("configs", "unset", "orders", "retention.ms").stdout == "Unset retention.ms on topic orders\n"
    )
    assert "retention.ms" not in {e["name"] for e in moldau_json("configs", "get", "orders")}


def test_json_of_changes(moldau: Any, moldau_json: Any) -> None:
    moldau("topics", "create", "orders")
    changed = {"type": "TOPIC", "name": "orders", "configs": {"retention.ms": "7"}}
    assert moldau_json("configs", "set", "orders", "retention.ms=7") == changed
    changed["configs"] = {"retention.ms": None}
    assert moldau_json("configs", "unset", "orders", "retention.ms") == changed


def test_all_and_named_configs(moldau: Any, moldau_json: Any) -> None:
    moldau("topics", "create", "orders")
    everything = moldau_json("configs", "get", "orders", "--all")
    assert len(everything) > 30
    assert [e["name"] for e in everything] == sorted(e["name"] for e in everything)
    (one,) = moldau_json("configs", "get", "orders", "--name", "retention.ms")
    assert (one["value"], one["source"]) == ("604800000", "DEFAULT_CONFIG")


def test_configs_of_brokers(moldau: Any, moldau_json: Any) -> None:
    said = moldau("configs", "set", "--all-brokers", "log.retention.ms=5000").stdout
    assert said == "Set log.retention.ms=5000 on all brokers\n"
    found = {e["name"]: e for e in moldau_json("configs", "get", "--broker", "1")}
    assert (found["log.retention.ms"]["value"], found["log.retention.ms"]["source"]) == (
        "5000",
        "DYNAMIC_DEFAULT_BROKER_CONFIG",
    )
    moldau("configs", "unset", "--all-brokers", "log.retention.ms")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("get",), "name one"),
        (("get", "orders", "--broker", "1"), "name one"),
        (("set", "orders"), "nothing to set"),
        (("set", "orders", "nonsense"), "NAME=VALUE"),
        (("unset", "orders"), "nothing to unset"),
    ],
)
def test_wrong_usage(moldau: Any, words: tuple[str, ...], reason: str) -> None:
    assert reason in moldau("configs", *words, code=2).stderr


def test_mistakes(moldau: Any) -> None:
    moldau("topics", "create", "orders")
    assert "INVALID_CONFIG" in moldau("configs", "set", "orders", "nonsense=1", code=1).stderr
    assert "INVALID_CONFIG" in moldau("configs", "set", "orders", "retention.ms=soon", code=1).stderr
    assert "UNKNOWN_TOPIC_OR_PARTITION" in moldau("configs", "get", "nope", code=1).stderr
