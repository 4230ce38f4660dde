"""Patterns with wildcards, compared with the plain reading of them; and patterns that mean no good."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.base.wildcards import compile_wildcards


def plainly(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(plainly(pattern[1:], text[start:]) for start in range(len(text) + 1))
    return bool(text) and pattern[0] in ("?", text[0]) and plainly(pattern[1:], text[1:])


@given(st.text("ab*?", max_size=7), st.text("ab\n", max_size=8))
def test_patterns_mean_what_they_say(pattern: str, text: str) -> None:
    assert (compile_wildcards(pattern, "*", "?").fullmatch(text) is not None) is plainly(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [("a_c%", "abcdef", True), ("a_c%", "ac", False), ("10.5%", "10x5", False), ("[a]%", "[a]b", True)],
)
def test_other_wildcards_and_characters_that_mean_something_elsewhere(
    pattern: str, text: str, fits: bool
) -> None:
    assert (compile_wildcards(pattern, "%", "_").fullmatch(text) is not None) is fits


def test_a_pattern_that_fits_in_countless_ways_but_for_its_end() -> None:
    """With an expression that goes back, these would take longer than anybody lives."""
    assert compile_wildcards("*a" * 40 + "b", "*", "?").fullmatch("a" * 200) is None
    assert compile_wildcards("*?" * 40 + "b", "*", "?").fullmatch("kafka.server " * 20) is None
