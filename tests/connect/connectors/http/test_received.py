"""Requests as records."""

from dataclasses import replace

import pytest

from moldau.connect.connectors.http.received import BYTES, JSON, STRING, Shape, parse_topics
from moldau.connect.errors import ConfigException, DataException
from moldau.connect.records import SourceRecord

PLAIN = Shape({"/orders": "o", "/": "root"}, "rest", STRING, "", (), frozenset("*"), "")
HEADERS = [
    (b"Content-Type", b"text/plain"),
    (b"X-Id", b"7"),
    (b"x-id", b"8"),
    (b"Authorization", b"Bearer secret"),
    (b"Cookie", b"secret"),
    (b"Host", b"h"),
]


def made(shape: Shape, body: bytes) -> SourceRecord:
    return shape.record("t", "/orders", HEADERS, body)


def test_topics_by_path() -> None:
    assert [PLAIN.topic_of(path) for path in ("/orders", "/orders/", "/", "/orders/1")] == [
        "o",
        "o",
        "root",
        "rest",
    ]
    assert replace(PLAIN, topic="").topic_of("/else") is None
    assert parse_topics(["/a = b", "/c/=d"]) == {"/a": "b", "/c": "d"}
    for bad in ("a=b", "/a", "/a=", "=b", ""):
        with pytest.raises(ConfigException):
            parse_topics([bad])


def test_bodies() -> None:
    assert made(PLAIN, "größer".encode()).value == "größer"
    assert made(PLAIN, b"").value == ""
    assert made(replace(PLAIN, value_format=BYTES), b"\xff").value == b"\xff"
    found = made(replace(PLAIN, value_format=JSON), b'{"a":[1,null,"x"],"b":1.5}')
    assert (found.value_schema, found.value) == (None, {"a": [1, None, "x"], "b": 1.5})
    assert made(replace(PLAIN, value_format=JSON), b"null").value is None


@pytest.mark.parametrize("body", [b"", b" ", b"{", b"{}x", b"\xff", b"[" * 100_000, b'{"a":' * 5000])
def test_what_is_no_json(body: bytes) -> None:
    with pytest.raises(DataException):
        made(replace(PLAIN, value_format=JSON), body)
    with pytest.raises(DataException, match="no text"):
        made(PLAIN, b"\xff")


def test_keys() -> None:
    assert made(PLAIN, b"x").key is None
    assert made(replace(PLAIN, key_header="x-id"), b"x").key == "7"
    with pytest.raises(DataException, match="header x-none, which gives the key, is missing"):
        made(replace(PLAIN, key_header="x-none"), b"x")
    by_field = replace(PLAIN, value_format=JSON, key_field=("order", "id"))
    assert made(by_field, b'{"order":{"id":5}}').key == "5"
    assert made(by_field, b'{"order":{"id":"a"}}').key == "a"
    for bad in (b"{}", b"5", b'{"order":{"id":null}}', b'{"order":{"id":{}}}', b'{"order":[1]}'):
        with pytest.raises(DataException, match=r"field order.id, which gives the key, has no value"):
            made(by_field, bad)


def test_headers_without_secrets() -> None:
    def kept(shape: Shape) -> list[tuple[str, object]]:
        return [(each.key, each.value) for each in made(shape, b"x").headers]

    assert kept(PLAIN) == [("content-type", "text/plain"), ("x-id", "7"), ("x-id", "8")]
    assert kept(replace(PLAIN, headers=frozenset({"x-id", "cookie"}))) == [("x-id", "7"), ("x-id", "8")]
    assert kept(replace(PLAIN, headers=frozenset(), path_header="path")) == [("path", "/orders")]
