"""What bytes are shown as, without a registry; with one the pages' tests do it."""

import datetime
import decimal
import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.registry.schema_registry import RegistryClient
from moldau.console.decoding import Decoded, Decoder, guess, plain, schema_of, shown
from moldau.schemas.schema_id import id_prefix


@pytest.mark.parametrize(
    ("data", "form", "value"),
    [
        (b'{"a": [1, 2]}', "json", {"a": [1, 2]}),
        (b"[1]", "json", [1]),
        (b'{"a": NaN}', "json", {"a": "nan"}),
        (b"{broken", "text", "{broken"),
        ("Ústí".encode(), "text", "Ústí"),
        (b"", "text", ""),
        (b"42", "text", "42"),
        ((7).to_bytes(4, "big"), "int32", 7),
        ((-7).to_bytes(8, "big", signed=True), "int64", -7),
        (b"\xff\xfe\x01", "bytes", "ff fe 01"),
        (b"a\x00b", "bytes", "61 00 62"),
        (b"[" * 100_000, "text", "[" * 100_000),
        (b"[" * 900 + b"]" * 900, "text", "[" * 900 + "]" * 900),
    ],
)
def test_guesses(data: bytes, form: str, value: object) -> None:
    assert (guess(data).form, guess(data).value) == (form, value)


@given(st.binary())
def test_everything_can_be_shown(data: bytes) -> None:
    found = guess(data)
    assert isinstance(shown(found.value), str)
    json.dumps(found.value, allow_nan=False)


def test_null_and_schemas() -> None:
    decoder = Decoder(None, lambda: 0)
    assert decoder.decode(None, (), topic="t", is_key=False) == Decoded(None, "null")
    framed = id_prefix(7) + b"x"
    assert str(schema_of(framed, (), False)) == "id 7"
    assert schema_of(b"plain", (), False) is None
    assert str(schema_of(b"x", (("__value_schema_id", id_prefix(9)),), False)) == "id 9"
    assert decoder.decode(framed, (), topic="t", is_key=False).form == "bytes"


def test_a_registry_that_is_down_is_asked_once_a_minute() -> None:
    now = [0]
    registry = RegistryClient("http://127.0.0.1:9", timeout_ms=500)
    decoder = Decoder(registry, lambda: now[0])
    framed = id_prefix(7) + b"x"
    asked = []
    original = registry.by_id
    registry.by_id = lambda *given: (asked.append(given), original(*given))[1]  # type: ignore[method-assign]
    for moment in (0, 1_000, 70_000):
        now[0] = moment
        found = decoder.decode(framed, (), topic="t", is_key=False)
        assert found.form == "bytes"
        assert "cannot be reached" in found.problem
    assert len(asked) == 2


def test_a_registry_that_does_not_answer_costs_one_timeout_for_all() -> None:
    now = [0]
    decoder = Decoder(RegistryClient("http://127.0.0.1:9", timeout_ms=500), lambda: now[0])
    registry = decoder._registry
    asked = []
    assert registry is not None
    original = registry.by_id
    registry.by_id = lambda *given: (asked.append(given), original(*given))[1]  # type: ignore[method-assign]
    for schema_id in range(20):
        found = decoder.decode(id_prefix(schema_id) + b"x", (), topic="t", is_key=False)
        assert "cannot be reached" in found.problem
    assert len(asked) == 1
    now[0] = 11_000
    decoder.decode(id_prefix(21) + b"x", (), topic="t", is_key=False)
    assert len(asked) == 2


def test_values_of_deserializers_become_json() -> None:
    value = {
        "time": datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC),
        "price": decimal.Decimal("1.50"),
        "id": uuid.UUID(int=1),
        "raw": b"\x00",
        "list": (1, float("inf")),
    }
    found = plain(value)
    assert found["price"] == "1.50"
    assert found["time"].startswith("2026-01-31")
    assert found["list"] == [1, "inf"]
    json.dumps(found, allow_nan=False)
