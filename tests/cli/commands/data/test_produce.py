from pathlib import Path
from typing import Any

import pytest

from moldau.testing import Broker


def test_lines_become_records(moldau: Any, broker: Broker) -> None:
    said = moldau("produce", "orders", input="one\ntwo\r\n\nlast").stderr
    assert "Wrote 4 record(s), 10 B, to orders (partition 0, offsets 0 to 3)" in said
    assert [r.value for r in broker.records("orders")] == [b"one", b"two", b"", b"last"]
    assert {r.key for r in broker.records("orders")} == {None}


def test_keys_headers_and_nulls(moldau: Any, broker: Broker) -> None:
    moldau(
        *("produce", "orders", "-K", ":", "--null-value", "NULL", "-H", "trace=1", "-H", "who=me"),
        input="a:1\nb:NULL\nc:x:y\n",
    )
    found = [(r.key, r.value) for r in broker.records("orders")]
    assert found == [(b"a", b"1"), (b"b", None), (b"c", b"x:y")]
    assert broker.records("orders")[0].headers == (("trace", b"1"), ("who", b"me"))


def test_a_file(moldau: Any, moldau_json: Any, broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"x\n" * 3000)
    summary = moldau_json("produce", "orders", "--file", str(path), "--key", "k", "-z", "zstd")
    assert summary.pop("seconds") > 0
    assert summary == {
        "topic": "orders",
        "records": 3000,
        "bytes": 6000,
        "partitions": [{"partition": 0, "records": 3000, "first_offset": 0, "last_offset": 2999}],
    }
    moldau("produce", "orders", "--file", str(path), "--whole")
    assert broker.records("orders")[-1].value == b"x\n" * 3000


def test_generated_records(moldau_json: Any, broker: Broker) -> None:
    summary = moldau_json("produce", "orders", "--count", "500", "--size", "30", "--acks", "1")
    assert (summary["records"], summary["bytes"]) == (500, 15_000)
    values = [r.value for r in broker.records("orders")]
    assert len(set(values)) == 500
    assert {len(v or b"") for v in values} == {30}


def test_one_partition(moldau: Any, moldau_json: Any) -> None:
    moldau("topics", "create", "orders", "-p", "3")
    summary = moldau_json("produce", "orders", "-p", "2", input="a\nb\n")
    assert [p["partition"] for p in summary["partitions"]] == [2]
    assert "partitions 0 to 2, not 7" in moldau("produce", "orders", "-p", "7", input="a\n", code=1).stderr


def test_nothing_to_write(moldau: Any) -> None:
    assert "Nothing to write" in moldau("produce", "orders", input="").stderr


def test_acknowledgements_that_nobody_sends(moldau: Any) -> None:
    assert (
        "Wrote 1 record(s), 1 B, to orders (partition 0)"
        in moldau("produce", "orders", "--acks", "0", input="a\n").stderr
    )


@pytest.mark.parametrize(
    ("words", "reason", "code"),
    [
        (("-k", "a", "-K", ":"), "choose one", 2),
        (("-K", ""), "empty text", 2),
        (("-K", ":"), "no separator ':' in the line 'abc'", 1),
        (("-H", "x"), "NAME=VALUE", 2),
        (("--acks", "7"), "is not one of", 2),
        (("--count", "0"), "is not in the range", 2),
    ],
)
def test_mistakes(moldau: Any, words: tuple[str, ...], reason: str, code: int) -> None:
    assert reason in moldau("produce", "orders", *words, input="abc\n", code=code).stderr


def test_what_the_broker_refuses_is_told(moldau: Any) -> None:
    moldau("topics", "create", "orders", "-c", "max.message.bytes=200")
    said = moldau("produce", "orders", "--count", "1", "--size", "1000", code=1).stderr
    assert "MESSAGE_TOO_LARGE" in said
    assert "Next: raise max.message.bytes" in said
    moldau("topics", "create", "users", "-c", "cleanup.policy=compact")
    assert "INVALID_RECORD" in moldau("produce", "users", input="no key\n", code=1).stderr
