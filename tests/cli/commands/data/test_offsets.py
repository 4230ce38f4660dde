from typing import Any


def test_offsets(moldau: Any, moldau_json: Any) -> None:
    moldau("topics", "create", "orders", "-p", "2")
    moldau("produce", "orders", "-p", "1", input="a\nb\n")
    assert moldau_json("offsets", "orders") == [
        {"topic": "orders", "partition": 0, "begin_offset": 0, "end_offset": 0, "records": 0},
        {"topic": "orders", "partition": 1, "begin_offset": 0, "end_offset": 2, "records": 2},
    ]
    (one,) = moldau_json("offsets", "orders", "-p", "1", "--committed")
    assert one["end_offset"] == 2
    table = [line.split() for line in moldau("offsets", "orders").stdout.splitlines()]
    assert ["orders", "1", "0", "2", "2"] in table
    assert ["all", "2"] in table


def test_offsets_at_a_moment(moldau: Any, moldau_json: Any) -> None:
    moldau("produce", "orders", input="a\nb\n")
    (then,) = moldau_json("offsets", "orders", "--at", "1h ago")
    assert then["at_offset"] == 0
    assert then["at_timestamp"] > 1_700_000_000_000
    (later,) = moldau_json("offsets", "orders", "--at", "99999999999999")
    assert (later["at_offset"], later["at_timestamp"]) == (None, None)
    assert " none " in moldau("offsets", "orders", "--at", "99999999999999").stdout


def test_mistakes(moldau: Any) -> None:
    assert "does not exist" in moldau("offsets", "nope", code=1).stderr
    assert "is not a time" in moldau("offsets", "nope", "--at", "soon", code=2).stderr
    moldau("topics", "create", "orders")
    assert "no partition orders-5" in moldau("offsets", "orders", "-p", "5", code=1).stderr
