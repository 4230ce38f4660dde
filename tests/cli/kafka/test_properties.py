"""Java properties files."""

import pytest

from moldau.cli.kafka.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb = 2\nc: 3\nd 4\ne\n", {"a": "1", "b": "2", "c": "3", "d": "4", "e": ""}),
        ("# no\n! no\n\n  a=1 \n", {"a": "1 "}),
        ("a=1,\\\n    2\nb=x", {"a": "1,2", "b": "x"}),
        ("a=c:\\\\dir\\\\\nb=\\u0041\\t.", {"a": "c:\\dir\\", "b": "A\t."}),
        ("a\\=b=c\n", {"a=b": "c"}),
        ("a=1\r\nb=2\ra=3", {"a": "3", "b": "2"}),
        ('sasl.jaas.config=X required username="u" password="p";', None),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_parse(text: str, expected: dict[str, str] | None) -> None:
    found = parse_properties(text)
    if expected is None:
        expected = {"sasl.jaas.config": 'X required username="u" password="p";'}
    assert found == expected


def test_a_bad_escape_is_named() -> None:
    with pytest.raises(ValueError, match="four hexadecimal digits"):
        parse_properties("a=\\u12")
