import subprocess
import sys

import pytest

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    ALL_VERSIONS,
    LAST_VERSION,
    NO_VERSIONS,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int32,
    Records,
    String,
    UuidBytes,
    Versions,
    data,
    declaration,
    field,
    parse_versions,
    request,
    struct,
)


@struct
class Inner:
    number: Int32 = field(default=-1)


@struct
class Everything:
    """All kinds of field."""

    small: Int8 = field()
    number: Int32 = field("3+", default=7)
    real: Float64 = field()
    flag: Bool = field()
    text: String = field()
    maybe_text: String | None = field()
    null_text: String | None = field(nullable="2-4", default=None)
    blob: Bytes = field()
    identifier: UuidBytes = field()
    batches: Records = field()
    maybe_batches: Records | None = field()
    numbers: list[Int32] = field()
    maybe_numbers: list[Int32] | None = field(default=None)
    inner: Inner = field()
    maybe_inner: Inner | None = field()
    inners: list[Inner] = field()
    tagged: String = field("1+", tag=4, tagged="2+")


@request(ApiKey.FETCH)
class Asked:
    inner: Inner = field()


def _field(name: str):
    return next(f for f in declaration(Everything).fields if f.name == name)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [("0+", 0, LAST_VERSION), ("3+", 3, LAST_VERSION), ("0-12", 0, 12), ("4", 4, 4), ("none", 0, -1)],
)
def test_ranges_of_versions(text: str, first: int, last: int) -> None:
    assert parse_versions(text) == Versions(first, last)


def test_a_range_contains_its_versions() -> None:
    assert [version for version in range(6) if version in parse_versions("2-4")] == [2, 3, 4]
    assert 0 not in NO_VERSIONS
    assert LAST_VERSION in ALL_VERSIONS
    assert "3" not in ALL_VERSIONS


def test_defaults() -> None:
    made = Everything()
    assert (made.small, made.number, made.real, made.flag) == (0, 7, 0.0, False)
    assert (made.text, made.maybe_text, made.null_text, made.blob) == ("", "", None, b"")
    assert (made.identifier, made.batches, made.maybe_batches) == (bytes(16), b"", None)
    assert (made.numbers, made.maybe_numbers, made.inners) == ([], None, [])
    assert made.inner == Inner(number=-1)
    assert made.maybe_inner is None
    assert made.tagged == ""


def test_mutable_defaults_are_not_shared() -> None:
    first, second = Everything(), Everything()
    first.numbers.append(1)
    first.inner.number = 5
    assert second.numbers == []
    assert second.inner.number == -1


def test_fields_are_given_by_name_or_position() -> None:
    assert Everything(1, 2).number == 2
    assert Everything(number=2, small=1) == Everything(1, 2)
    with pytest.raises(TypeError):
        Everything(unknown=1)  # type: ignore[call-arg]


def test_the_first_object_is_made_like_the_others() -> None:
    @struct
    class Fresh:
        number: Int32 = field()

    assert Fresh(3).number == 3
    assert Fresh(number=4).number == 4
    assert repr(Fresh(5)).endswith("Fresh(number=5)")


def test_a_declaration_has_slots_and_no_room_for_misspelt_names() -> None:
    with pytest.raises(AttributeError):
        Everything().nmuber = 3  # type: ignore[attr-defined]


def test_equality_looks_at_class_and_fields() -> None:
    assert Inner(1) == Inner(1)
    assert Inner(1) != Inner(2)
    assert Inner(1) != Asked(Inner(1))
    assert Inner(1) != 1
    with pytest.raises(TypeError):
        hash(Inner(1))


def test_what_a_field_declares() -> None:
    assert _field("number").present == Versions(3, LAST_VERSION)
    assert _field("text").nullable == NO_VERSIONS
    assert _field("maybe_text").nullable == ALL_VERSIONS
    assert _field("null_text").nullable == Versions(2, 4)
    assert (_field("text").kind, _field("numbers").kind, _field("inners").kind) == ("string", "int32", Inner)
    assert [_field(name).is_array for name in ("text", "numbers", "maybe_numbers")] == [False, True, True]
    assert (_field("tagged").tag, _field("tagged").tagged) == (4, Versions(2, LAST_VERSION))
    assert (_field("text").tag, _field("text").tagged) == (None, NO_VERSIONS)


def test_what_a_message_declares() -> None:
    found = declaration(Asked)
    assert (found.name, found.api_key) == ("Asked", ApiKey.FETCH)
    assert (found.versions, found.flexible) == (Versions(4, 18), Versions(12, LAST_VERSION))
    assert declaration(data(versions="0-3", flexible="none")(type("Data", (), {}))).api_key is None
    assert Everything.__doc__ == "All kinds of field."


def test_a_plain_default_is_not_a_field() -> None:
    with pytest.raises(AssertionError, match="number is not declared"):

        @struct
        class Wrong:
            number: Int32 = 3


def test_nullable_must_agree_with_the_type() -> None:
    with pytest.raises(AssertionError, match="text is nullable"):

        @struct
        class Wrong:
            text: String = field(nullable="3+")


def test_loading_an_api_imports_no_other() -> None:
    script = """
import sys
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.messages import load
before = set(sys.modules)
request, response = load(ApiKey.SASL_HANDSHAKE)
print(request.__name__, response.__name__, *sorted(m for m in set(sys.modules) - before if "messages" in m))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [
        "SaslHandshakeRequest",
        "SaslHandshakeResponse",
        "moldau.protocol.messages.sasl_handshake",
    ]
