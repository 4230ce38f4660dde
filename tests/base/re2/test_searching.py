"""Searching a text: the places, groups and replacements that Java finds, and no text that takes for ever."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.re2.regular_expressions import BadExpression
from moldau.base.re2.searching import TooMuchWork, compile_search


@pytest.mark.parametrize(
    ("expression", "text", "found"),
    [
        ("a+", "baab a", [("aa",), ("a",)]),
        (
            "(\\w+)@(\\w+)",
            "to ann@shop, bob@bank",
            [("ann@shop", "ann", "shop"), ("bob@bank", "bob", "bank")],
        ),
        ("a|ab", "ab", [("a",)]),  # the first of two that both match, not the longest
        (".*?b", "aabab", [("aab",), ("ab",)]),
        ("(?U).*b", "aabab", [("aab",), ("ab",)]),  # U: the other way round
        ("(?U).*?b", "aabab", [("aabab",)]),
        ("a*", "aab", [("aa",), ("",), ("",)]),
        ("^a", "aa", [("a",)]),
        ("(?m)^.$", "a\nb", [("a",), ("b",)]),
        ("\\bb\\b", "ab b", [("b",)]),
        ("(a)|(b)", "b", [("b", None, "b")]),
        ("(?i)STRASSE", "Strasse", [("Strasse",)]),
        ("x{2,3}", "xxxxxxx", [("xxx",), ("xxx",)]),
        ("x{2,3}?", "xxxx", [("xx",), ("xx",)]),
        ("(?:a(b)?)+", "aba", [("aba", "b")]),
        ("", "ä", [("",), ("",)]),
        ("z", "ab", []),
    ],
)
def test_what_is_found(expression: str, text: str, found: list[tuple[str | None, ...]]) -> None:
    search = compile_search(expression)
    matches = list(search.all(text))
    groups = [tuple(each.group(n) for n in range(len(each.places) // 2)) for each in matches]
    assert groups == found
    first = search.first(text)
    assert first == (matches[0] if matches else None)


LOOPS = st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}"])
PARTS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "\\b", "^", "$", "ab", "c"])
EXPRESSIONS = st.recursive(
    PARTS,
    lambda inner: st.one_of(
        st.builds("({})".format, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("{}{}".format, inner, inner),
        # A loop over what may be empty ends in its own way in every engine.
        st.builds(
            "(?:{}c){}".format, inner, st.sampled_from(["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}"])
        ),
        st.builds("[ab]{}{}".format, st.sampled_from(["*", "+", "?", "*?", "{0,2}"]), inner),
    ),
    max_leaves=6,
)


@settings(max_examples=300)
@given(EXPRESSIONS, st.text("abc", max_size=12))
def test_as_python_finds_it(expression: str, text: str) -> None:
    """Python's own engine is the judge; behind an empty match it goes on a character further, as Java."""
    judge, at, expected = re.compile(expression), 0, []
    while at <= len(text) and (match := judge.search(text, at)):
        expected.append((match.span(), match.groups()))
        at = match.end() + (match.start() == match.end())
    found = compile_search(expression).all(text)
    groups = range(1, judge.groups + 1)
    assert [(each.places[:2], tuple(map(each.group, groups))) for each in found] == expected


@pytest.mark.parametrize(
    ("expression", "by", "text", "result"),
    [
        ("(\\w)(\\w)", "$2$1", "abcd", "badc"),
        ("(?P<first>\\w)-", "<${first}>", "a-b-", "<a><b>"),
        ("(a)", "$12", "a", "a2"),  # there is no group 12
        ("a", "\\$1\\\\", "a", "$1\\"),
        ("(a)|b", "[$1]", "ab", "[a][]"),
        ("x*", "-", "axb", "-a--b-"),
        ("$", "!", "a", "a!"),
    ],
)
def test_replacing(expression: str, by: str, text: str, result: str) -> None:
    assert compile_search(expression).replace(text, by) == result


@pytest.mark.parametrize("by", ["$", "a$", "\\", "$2", "${none}"])
def test_replacements_that_mean_nothing(by: str) -> None:
    with pytest.raises((ValueError, LookupError)):
        compile_search("(a)").replace("a", by)


def test_a_group_that_is_not_there() -> None:
    found = compile_search("a").first("a")
    assert found is not None
    for number in (1, -1):
        with pytest.raises(IndexError):
            found.group(number)


@pytest.mark.parametrize("expression", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(?:a?){30}a{30}$", "(.*)(.*)(.*)=x"])
def test_bombs_of_other_engines(expression: str) -> None:
    """Python's engine would not come back from the first within a lifetime."""
    assert compile_search(expression).first("a" * 60 + "!") is None


def test_work_has_an_end() -> None:
    search = compile_search("(?:a*)*(?:a*)*b")
    with pytest.raises(TooMuchWork):
        search.first("a" * 1_000_000)
    with pytest.raises(TooMuchWork):  # each match is little work, all together are not
        compile_search("a*b|a").replace("a" * 10_000, "")
    assert compile_search("b").first("a" * 1_000_000 + "b") is not None


@pytest.mark.parametrize("expression", ["(", "(?=a)", "(a)\\1", "((a{1000}){1000}){1000}", "a" * 16_001])
def test_what_is_refused(expression: str) -> None:
    with pytest.raises(BadExpression):
        compile_search(expression)


def test_nothing_however_often_is_nothing() -> None:
    found = compile_search("(?:(?:(?:(?:){1000}){1000}){1000}){1000}a").first("a")
    assert found is not None
