from typing import Any

from moldau.cli.commands.data.topics import state_text
from moldau.testing import Broker


def test_a_topic_from_its_making_to_its_end(moldau: Any, moldau_json: Any) -> None:
    said = moldau("topics", "create", "orders", "-p", "3", "-c", "retention.ms=1000").stdout
    assert said == "Created topic orders: 3 partition(s), replication factor 1\n"
    (row,) = moldau_json("topics", "list")
    assert row == {
        "name": "orders",
        "partitions": 3,
        "replication_factor": 1,
        "internal": False,
        "records": 0,
        "size_bytes": 0,
        "offline_partitions": 0,
        "under_replicated_partitions": 0,
    }
    assert moldau("topics", "alter", "orders", "--partitions", "4").stdout
    (found,) = moldau_json("topics", "describe", "orders")
    assert [p["partition"] for p in found["partitions"]] == [0, 1, 2, 3]
    assert found["configs"] == {"retention.ms": "1000"}
    assert moldau("topics", "delete", "orders", "--yes").stdout == "Deleted topic orders\n"
    assert moldau_json("topics", "list") == []


def test_tables_for_people(moldau: Any) -> None:
    assert "no topics yet" in moldau("topics", "list").stderr
    moldau("topics", "create", "orders", "users")
    moldau("produce", "orders", input="a\nb\n")
    listed = moldau("topics", "list").stdout
    assert [line.split()[:4] for line in listed.splitlines() if "ok" in line] == [
        ["orders", "1", "1", "2"],
        ["users", "1", "1", "0"],
    ]
    described = moldau("topics", "describe", "orders").stdout
    assert described.startswith("orders  id ")
    assert "configs: all by default" in described
    assert moldau("topics", "list", "--names").stdout == "orders\nusers\n"


def test_json_of_names_and_creation(moldau_json: Any) -> None:
    (made,) = moldau_json("topics", "create", "orders")
    assert made["created"]
    assert (made["name"], made["partitions"], len(made["topic_id"])) == ("orders", 1, 22)
    assert moldau_json("topics", "create", "orders", "--if-not-exists") == [
        {"name": "orders", "created": False}
    ]
    assert moldau_json("topics", "list", "--names") == ["orders"]


def test_json_of_changes(moldau: Any, moldau_json: Any) -> None:
    moldau("topics", "create", "orders")
    assert moldau_json("topics", "alter", "orders", "-p", "2") == {"name": "orders", "partitions": 2}
    assert moldau_json("topics", "delete", "orders", "nope", "-y", "--if-exists") == [
        {"name": "orders", "deleted": True},
        {"name": "nope", "deleted": False},
    ]


def test_mistakes_are_one_line(moldau: Any) -> None:
    moldau("topics", "create", "orders", "-p", "2")
    for words, reason in (
        (("create", "orders"), "already exists (TOPIC_ALREADY_EXISTS). Next: "),
        (("create", "a b"), "INVALID_TOPIC_EXCEPTION"),
        (("create", "c", "-c", "nonsense=1"), "INVALID_CONFIG"),
        (("create", "c", "-r", "3"), "INVALID_REPLICATION_FACTOR"),
        (("describe", "nope"), "topic 'nope' does not exist (UNKNOWN_TOPIC_OR_PARTITION). Next: "),
        (("alter", "orders", "-p", "1"), "INVALID_PARTITIONS"),
        (("delete", "nope", "-y"), "'nope'"),
    ):
        said = moldau("topics", *words, code=1).stderr
        assert said.startswith("Error: ")
        assert said.count("\n") == 1
        assert reason in said
    assert "NAME=VALUE" in moldau("topics", "create", "c", "-c", "nonsense", code=2).stderr


def test_deleting_asks_first(moldau: Any) -> None:
    moldau("topics", "create", "orders")
    assert "Aborted" in moldau("topics", "delete", "orders", input="n\n", code=1).stderr
    moldau("topics", "delete", "orders", input="y\n")
    moldau("topics", "delete", "orders", "--yes", "--if-exists")


def test_no_broker(moldau: Any) -> None:
    said = moldau("topics", "list", "-b", "127.0.0.1:1", code=1).stderr
    assert said == (
        "Error: nothing listens at 127.0.0.1:1: is the broker running? Next: start one with 'moldau broker', "
        "or give another address with -b host:port\n"
    )
    assert "not an address" in moldau("topics", "list", "-b", "a:b:c:d/", code=2).stderr


def test_internal_topics_are_shown_when_asked_for(moldau_json: Any, broker: Broker) -> None:
    moldau_json("topics", "create", "__consumer_offsets")
    assert moldau_json("topics", "list") == []
    assert [row["name"] for row in moldau_json("topics", "list", "--internal")] == ["__consumer_offsets"]


def test_states() -> None:
    assert state_text({"offline_partitions": 2, "under_replicated_partitions": 2}) == "2 without leader"
    assert state_text({"offline_partitions": 0, "under_replicated_partitions": 1}) == "1 under-replicated"
    assert state_text({"offline_partitions": 0, "under_replicated_partitions": 0}) == "ok"
