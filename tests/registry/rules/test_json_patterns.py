"""Patterns of strangers are run only where that is harmless."""

import pytest

from moldau.registry.rules.json_patterns import may_match


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("^x-", "x-a", True),
        ("^x-", "a-x-", False),
        ("[0-9]+$", "a1", True),
        ("(a+)+$", "aaaa", None),
        ("a*b*c*", "abc", None),
        (r"\p{L}", "a", None),
        (r"(a)\1", "aa", None),
        ("[", "a", None),
        ("[a-z--b]", "a", None),
        ("a", "a\nb", None),
        ("a" * 201, "a", None),
        ("a", "a" * 201, None),
    ],
)
def test_sure_or_not(pattern: str, name: str, expected: bool | None) -> None:
    assert may_match(pattern, name) is expected
