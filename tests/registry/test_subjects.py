"""Names of subjects and their contexts."""

import pytest

from moldau.registry import subjects
from moldau.registry.errors import RegistryProblem


@pytest.mark.parametrize(
    ("written", "context", "name", "normal"),
    [
        ("orders", ".", "orders", "orders"),
        (":.:orders", ".", "orders", "orders"),
        (":.eu:orders", ".eu", "orders", ":.eu:orders"),
        (":.eu:a:b", ".eu", "a:b", ":.eu:a:b"),
        (":.eu", ".eu", "", ":.eu:"),
    ],
)
def test_one_subject_has_one_name(written: str, context: str, name: str, normal: str) -> None:
    assert subjects.split(written) == (context, name)
    assert subjects.normal(written) == normal
    assert subjects.normal(normal) == normal


def test_a_reference_stays_in_its_context_unless_it_names_one() -> None:
    assert subjects.within("orders", "money") == "money"
    assert subjects.within(":.eu:orders", "money") == ":.eu:money"
    assert subjects.within(":.eu:orders", ":.us:money") == ":.us:money"
    assert subjects.within(":.eu:orders", ":.:money") == "money"


@pytest.mark.parametrize("text", ["eu", ".eu", ":.eu:"])
def test_contexts_as_people_write_them(text: str) -> None:
    assert subjects.context_name(text) == ".eu"


@pytest.mark.parametrize("bad", ["", ":.eu:", "__GLOBAL", ":.eu:__EMPTY", "a\nb", "x" * 10_001])
def test_names_that_nothing_is_stored_under(bad: str) -> None:
    with pytest.raises(RegistryProblem) as refused:
        subjects.check(bad)
    assert refused.value.code == 42208


def test_good_names_are_given_back_in_their_normal_form() -> None:
    assert subjects.check(":.:orders-value") == "orders-value"
