"""Expressions and replacements of Java."""

import pytest

from moldau.connect.config.regex import compile_java, replace_first
from moldau.connect.errors import IllegalArgumentException, IndexOutOfBoundsException


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(?<db>\w+)\.\k<db>", "a.a"),
        (r"\p{Alpha}+[\p{Digit}_]*", "ab1_"),
        (r"\Qa.b\E.*", "a.bc"),
        (r"[a[b]]+", "ab"),
        (r"a{2}b{1,}", "aabb"),
        (r"ab\z", "ab"),
        (r"\P{Upper}+", "abc"),
    ],
)
def test_what_java_writes_otherwise(pattern: str, text: str) -> None:
    assert compile_java(pattern).fullmatch(text) is not None


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "Unclosed group near index 1\n("),
        ("a(b", "Unclosed group near index 3\na(b"),
        ("*a", "Dangling meta character '*' near index 0\n*a\n^"),
        ("[ab", "Unclosed character class near index 2\n[ab\n  ^"),
        (")", "Unmatched closing ')'\n)"),
        ("a)", "Unmatched closing ')' near index 0\na)\n^"),
        ("a\\", "Unexpected internal error near index 2\na\\"),
        ("[[a]", "Unclosed character class near index 3\n[[a]\n   ^"),
        ("x{", "Illegal repetition near index 2\nx{"),
        ("a{2", "Unclosed counted closure near index 3\na{2"),
        ("a{1,0}", "Illegal repetition range near index 5\na{1,0}\n     ^"),
        ("(?x", "Unknown inline modifier near index 3\n(?x"),
        ("\\k", "\\k is not followed by '<' for named capturing group near index 2\n\\k"),
    ],
)
def test_complaints_are_those_of_java(pattern: str, message: str) -> None:
    with pytest.raises(IllegalArgumentException) as error:
        compile_java(pattern)
    assert error.value.message == message


@pytest.mark.parametrize(
    ("pattern", "replacement", "result"),
    [
        ("(o)(r)(.*)", "$2$1$3", "roders"),
        ("(?<first>.).*", "${first}x", "ox"),
        ("(.*)", "$1\\$1", "orders$1"),
        ("(o).*", "$12", "o2"),
        ("orders|o", "x", "x"),
        ("o|orders", "x", "xrders"),
        ("(x)?orders", "[$1]", "[]"),
    ],
)
def test_replacements(pattern: str, replacement: str, result: str) -> None:
    assert replace_first(compile_java(pattern), "orders", replacement) == result


def test_replacements_that_make_no_sense() -> None:
    pattern = compile_java("(o).*")
    with pytest.raises(IndexOutOfBoundsException, match="No group 2"):
        replace_first(pattern, "orders", "$2")
    with pytest.raises(IllegalArgumentException, match="Illegal group reference"):
        replace_first(pattern, "orders", "$x")
    with pytest.raises(IllegalArgumentException, match="character to be escaped is missing"):
        replace_first(pattern, "orders", "a\\")
    with pytest.raises(IllegalArgumentException, match=r"No group with name \{nope\}"):
        replace_first(pattern, "orders", "${nope}")
