"""Texts that are read as values, and those that stay texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.data.parsing import parse
from moldau.connect.data.schema import SchemaAndValue
from moldau.connect.data.text import header_text
from moldau.connect.data.types import Instant, Type


def parsed(text: str, whole: bool = False) -> SchemaAndValue:
    found = parse(text, whole)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("127", Type.INT8, 127),
        ("-40000", Type.INT32, -40000),
        ("1.0", Type.INT8, 1),
        ("0.1e1", Type.INT8, 1),
        ("true", Type.BOOLEAN, True),
        ("true}", Type.STRING, "true}"),
        ("[1,null]", Type.STRING, "[1,null]"),
        ("[ 1 , 2 ]", Type.ARRAY, [1, 2]),
        ('{"a":[1,2.5]}', Type.MAP, {"a": [1.0, 2.5]}),
        ('["2024-01-02"]', Type.ARRAY, [Instant(1_704_153_600_000)]),
        ("[1", Type.STRING, "[1"),
        ("2024-0x-01", Type.STRING, "2024-0x-01"),
        ("   ", Type.STRING, "   "),
    ],
)
def test_what_texts_are(text: str, kind: Type, value: object) -> None:
    found = parsed(text)
    assert found.schema is not None
    assert (found.schema.type, found.value) == (kind, value)


def test_the_word_null_is_nothing() -> None:
    assert parse("null") is None
    assert parse(None) == (None, None)


def test_the_strict_way_keeps_what_follows_a_number() -> None:
    assert parsed("1,2").value == 1
    assert parsed("1,2", whole=True).value == "1,2"
    assert parsed("12:30", whole=True).value == "12:30"
    assert parsed(" 12 ", whole=True).value == 12


def test_the_strict_way_takes_only_real_dates() -> None:
    assert parsed("2024-02-30").value == Instant(1_709_251_200_000)
    assert parsed("2024-02-30", whole=True).value == "2024-02-30"
    assert parsed("2024-02-29", whole=True).value == Instant(1_709_164_800_000)


def test_nesting_has_a_bound() -> None:
    deep = "[" * 5000 + "]" * 5000
    assert parsed(deep).value == deep


def test_keys_of_maps_may_be_lists() -> None:
    assert parsed("{[1]:2}").value == {(1,): 2}
    assert parsed("{{1:2}:3}").value == "{{1:2}:3}"


@pytest.mark.slow
@given(
    st.recursive(
        st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.text("abcde ", min_size=1),
        lambda inner: st.lists(inner, max_size=3),
        max_leaves=6,
    )
)
def test_any_text_of_a_value_is_read_without_an_error(value: object) -> None:
    parse(header_text(value))


@pytest.mark.slow
@given(st.text('[]{}:,"\\ 019-.eTZ', max_size=40))
def test_any_text_is_something(text: str) -> None:
    parse(text)
    parse(text, whole=True)
