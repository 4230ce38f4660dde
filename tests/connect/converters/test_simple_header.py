"""Headers in the strict mode."""

from moldau.connect.converters.simple_header import SimpleHeaderConverter

CONVERTER = SimpleHeaderConverter({}, "header")


def test_nothing_is_lost() -> None:
    found = CONVERTER.to_connect_header("t", "h", b"1,2")
    assert found is not None
    assert found.value == "1,2"
    raw = CONVERTER.to_connect_header("t", "h", b"\xff")
    assert raw is not None
    assert raw.value == b"\xff"


def test_the_word_null_is_a_null() -> None:
    assert CONVERTER.to_connect_header("t", "h", b"null") == (None, None)
