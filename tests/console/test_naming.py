"""Names of new topics: the broker's rules, and a rule of the house (a form that refuses bad names)."""

import pytest

from moldau.console.naming import name_problem


@pytest.mark.parametrize("name", ["orders", "team.orders-v2", "A_1"])
def test_good_names(name: str) -> None:
    assert name_problem(name, ["other"]) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "empty"),
        ("..", "not allowed"),
        ("a b", "characters other than"),
        ("<script>", "characters other than"),
        ("x" * 250, "longer than"),
        ("taken", "already"),
        ("a_b", "too close to a.b"),
        ("__mine", "the cluster's own"),
    ],
)
def test_bad_names(name: str, words: str) -> None:
    assert words in (name_problem(name, ["taken", "a.b"]) or "")


def test_a_rule_of_the_house() -> None:
    pattern = r"[a-z]+\.[a-z-]+"
    assert name_problem("team.orders", [], pattern) is None
    assert "have to match" in (name_problem("orders", [], pattern) or "")
    assert "begin with the team" in (name_problem("orders", [], pattern, "begin with the team") or "")
