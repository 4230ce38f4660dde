"""Sets of characters, as regular expressions write them."""

import pytest

from moldau.base.re2.character_classes import ANY, ANY_BUT_NEWLINE, PERL, POSIX, UNICODE, Characters, of


@pytest.mark.parametrize(
    ("characters", "inside", "outside"),
    [
        (of("af", "x"), "afx", "gyA"),
        (of("az").opposite(), "A1", "az"),
        (Characters((("a", "z"),), ignore_case=True), "aZ", "1"),
        (ANY, "a\n", ""),
        (ANY_BUT_NEWLINE, "a", "\n"),
        (PERL["d"], "09", "a٣"),
        (PERL["w"], "aZ_9", "-é"),
        (PERL["s"], " \t\n\f\r", "\va"),
        (POSIX["punct"], "!/[~", "a1 "),
        (POSIX["space"], " \v", "a"),
        (UNICODE["Lu"], "AÉ", "aé1"),
        (UNICODE["L"], "aé水", "1 "),
        (UNICODE["Greek"], "αΩ", "a"),
        (UNICODE["Han"], "水", "a"),
        (UNICODE["Common"], "1 !", "a"),
    ],
)
def test_what_is_in_a_set(characters: Characters, inside: str, outside: str) -> None:
    assert [each for each in inside if each not in characters] == []
    assert [each for each in outside if each in characters] == []


def test_a_letter_that_becomes_two_in_the_other_case() -> None:
    assert "ß" not in Characters((("S", "S"),), ignore_case=True)
    assert "ß" in Characters((("ß", "ß"),), ignore_case=True)


def test_the_opposite_of_the_opposite() -> None:
    assert PERL["d"].opposite().opposite() == PERL["d"]
