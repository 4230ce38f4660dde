"""Patterns with stars: the shell's meaning, and a cost that nobody can drive up."""

import fnmatch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.wildcards import like


@settings(max_examples=200)
@given(st.text("ab*?", max_size=12), st.text("ab", max_size=12))
def test_patterns_are_those_of_the_shell(pattern: str, text: str) -> None:
    assert like(text, pattern) == fnmatch.fnmatchcase(text, pattern)


@pytest.mark.parametrize(
    "pattern", ["*a" * 20 + "b", "*" + "a" * 1_900 + "b", "*a" * 900 + "*b", "*" + "a?" * 20 + "b*"]
)
def test_a_pattern_takes_no_time(pattern: str) -> None:
    """A regular expression of the first form takes for ever, and trying each place of the others minutes."""
    assert like("a" * 100_000, pattern) is False
