"""Texts: what cannot be one is refused, unless Kafka's way is asked for."""

import pytest

from moldau.connect.compatibility import Compatibility
from moldau.connect.converters.strings import StringConverter
from moldau.connect.errors import DataException, SerializationException


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(DataException, match="Failed to deserialize string"):
        StringConverter({}).to_connect("t", b"a\xff")
    assert StringConverter({}, compatibility=Compatibility.KAFKA).to_connect("t", b"a\xff").value == "a\ufffd"


def test_letters_that_the_encoding_has_not() -> None:
    latin = {"converter.encoding": "ISO-8859-1"}
    with pytest.raises(DataException, match="Failed to serialize"):
        StringConverter(latin).from_connect("t", None, "中")
    assert StringConverter(latin, compatibility=Compatibility.KAFKA).from_connect("t", None, "中") == b"?"


def test_sixteen_bits_are_big_endian_with_a_mark() -> None:
    converter = StringConverter({"converter.encoding": "UTF-16"})
    raw = converter.from_connect("t", None, "aé")
    assert raw == b"\xfe\xff\0a\0\xe9"
    assert converter.to_connect("t", raw).value == "aé"
    assert converter.to_connect("t", b"\0a").value == "a"


def test_an_encoding_that_is_not_known() -> None:
    with pytest.raises(SerializationException, match="Unsupported encoding nope"):
        StringConverter({"converter.encoding": "nope"})
