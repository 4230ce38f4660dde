"""Keys and values without a schema: to bytes and back."""

import json

import pytest

from moldau.rest.formats import BY_MEDIA_TYPE, Format, encode, header_text, header_value, json_text


@pytest.mark.parametrize(
    ("form", "value", "data"),
    [
        (Format.BINARY, None, None),
        (Format.BINARY, "", b""),
        (Format.BINARY, "AP8=", b"\x00\xff"),
        (Format.JSON, None, None),
        (Format.JSON, {"a": [1, 2.5, None, True]}, b'{"a":[1,2.5,null,true]}'),
        (Format.JSON, "Žižka", '"Žižka"'.encode()),
    ],
)
def test_there_and_back(form, value, data):
    assert encode(form, value) == data
    assert json.loads(json_text(form, data)) == value


@pytest.mark.parametrize("value", ["%", "AAA", "ž", 7, ["AA=="]])
def test_what_is_no_base64(value):
    with pytest.raises(ValueError, match="Base64"):
        encode(Format.BINARY, value)
    with pytest.raises(ValueError, match="Base64"):
        header_value(value)


def test_what_is_no_json():
    with pytest.raises(ValueError, match="surrogate"):
        encode(Format.JSON, "\ud800")
    for data in (b"", b"{", b"NaN", b"\xff", b"[" * 500_000):
        with pytest.raises(ValueError, match=r"."):
            json_text(Format.JSON, data)


def test_media_types():
    assert BY_MEDIA_TYPE["application/vnd.kafka.jsonschema.v2+json"] is Format.JSONSCHEMA
    assert [each for each in Format if not each.has_schema] == [Format.BINARY, Format.JSON]


def test_json_is_shown_as_it_is():
    assert json_text(Format.JSON, b'{ "a":1.0 }') == '{ "a":1.0 }'
    assert (header_text(None), header_text(b"a")) == (None, "YQ==")
