"""Regular expressions: what RE2 refuses is refused in its words, the rest matches as it should."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.base.re2.regular_expressions import (
    MAX_LENGTH,
    MAX_STATES,
    BadExpression,
    compile_expression,
)
from moldau.coordinators.groups.consumer.cluster_view import subscription_program
from moldau.protocol.errors import ErrorCode, KafkaError

#: As Kafka 4.3.0 with re2j 1.8 answered.
REFUSED = {
    "[a": "missing closing ]",
    "(a": "missing closing )",
    "a)": "regexp/syntax: internal error",
    "*": "missing argument to repetition operator",
    "a**": "invalid nested repetition operator",
    "a++": "invalid nested repetition operator",
    "a*+": "invalid nested repetition operator",
    "a{2}{3}": "invalid nested repetition operator",
    "(?=x)": "invalid or unsupported Perl syntax",
    "(?!x)": "invalid or unsupported Perl syntax",
    "(?>x)": "invalid or unsupported Perl syntax",
    "(?#c)x": "invalid or unsupported Perl syntax",
    "(?<=x)": "invalid named capture",
    "\\1": "invalid escape sequence",
    "(a)\\1": "invalid escape sequence",
    "\\8": "invalid escape sequence",
    "\\Z": "invalid escape sequence",
    "\\C": "invalid escape sequence",
    "\\h": "invalid escape sequence",
    "\\k": "invalid escape sequence",
    "a{2,1}": "invalid repeat count",
    "a{1001}": "invalid repeat count",
    "\\": "trailing backslash at end of expression",
    "[b-a]": "invalid character class range",
    "[[:foo:]]": "invalid character class range",
    "{*": "invalid nested repetition operator",
    "a{{2}": "invalid nested repetition operator",
    "(?i)*": "missing argument to repetition operator",
    "(?P<n>a)(?<n>b)": "duplicate capture group name",
}
TAKEN = [
    "(?P<n>x)", "(?<n>x)", "\\pN", "\\Q", "x{,2}", "[[:alpha:]]", "\\z", "\\A", "(?i)x", "(?s-m:x)", "a+?",
    "\\d\\w\\s\\b", "a{1000}", "\\x{41}", "\\101", "\\07", "", "a||b", "()", "[]a]", "[a-]", "{", "a{x}",
    "\\é", "\\\n", "[\\é]", "a*(?i)*",
]  # fmt: skip


@pytest.mark.parametrize("expression", REFUSED)
def test_refused_as_the_real_broker_does(expression: str) -> None:
    with pytest.raises(KafkaError) as refused:
        subscription_program(expression)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.message == (
        f"SubscribedTopicRegex `{expression}` is not a valid regular expression: {REFUSED[expression]}."
    )


@pytest.mark.parametrize("expression", TAKEN)
def test_taken_as_the_real_broker_does(expression: str) -> None:
    compile_expression(expression)


@pytest.mark.parametrize(
    ("expression", "matched", "unmatched"),
    [
        ("b.*", ["b", "b1", "b-x.y"], ["ab", ""]),
        ("g", ["g"], ["gg"]),  # the whole name
        ("(?i)AB", ["ab", "aB"], ["a"]),
        ("(?i:A)B", ["aB", "AB"], ["ab"]),
        ("a|b", ["a", "b"], ["ab"]),
        ("[^a-c]", ["d", "."], ["a", "b"]),
        ("[[:digit:]_]+", ["1_2"], ["a"]),
        ("\\Qa.b\\E", ["a.b"], ["axb"]),
        ("\\x61\\x{62}\\143", ["abc"], ["ab"]),
        ("\\p{Lu}\\PL", ["A1", "A."], ["a1", "AB"]),
        ("^a$", ["a"], ["aa"]),
        (".*\\bx\\b.*", ["a-x.b", "x"], ["axb", "_x"]),
        ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
        ("(ab?){2}", ["aa", "aba"], ["a"]),
        ("(?P<n>o)rders", ["orders"], ["rders"]),
        ("a(?i){2}B", ["aab", "aaB"], ["ab", "aabb"]),  # flags are nothing that could be repeated
        ("topic-(one|two)", ["topic-one", "topic-two"], ["topic-three"]),
    ],
)
def test_matches_whole_names(expression: str, matched: list[str], unmatched: list[str]) -> None:
    program = compile_expression(expression)
    assert [name for name in matched if not program.matches(name)] == []
    assert [name for name in unmatched if program.matches(name)] == []


@pytest.mark.parametrize(
    ("expression", "matched", "unmatched"),
    [
        ("pay.*", ["payé", "pay €", "pay"], ["päy", "pay\n"]),
        ("(?s)pay.*", ["pay\n"], ["pa"]),
        ("[^a]", ["ä", "\n", "字"], ["a", "ää"]),
        ("(?i)É+", ["éÉ"], ["e"]),
        ("[à-ü]", ["é"], ["e", "É"]),
        ("(?i)[à-ü]", ["é", "É"], ["e"]),
        ("\\pL+", ["aäß字я"], ["a1"]),
        ("\\p{Greek}+", ["αβγ"], ["abc"]),
        ("\\p{Cyrillic}\\P{Cyrillic}", ["яa"], ["яя"]),
        ("\\w", ["a", "_"], ["ä"]),
        ("[[:^alpha:]]", ["ä", "1"], ["a"]),
        ("(?i)\\W", ["ä"], ["ſ", "\u212a"]),  # the long s and the sign of Kelvin are forms of s and k
        ("\\é\\ ", ["é "], ["e "]),
        ("a\\sb", ["a b", "a\tb"], ["a_b"]),
        ("(?m)a$\n^b", ["a\nb"], ["ab"]),
        ("a$\nb", [], ["a\nb"]),
    ],
)
def test_any_text_can_be_matched(expression: str, matched: list[str], unmatched: list[str]) -> None:
    """Names of topics are plain, transactional ids are not."""
    program = compile_expression(expression)
    assert [text for text in matched if not program.matches(text)] == []
    assert [text for text in unmatched if program.matches(text)] == []


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                "b",
                ".",
                "-",
                "[ab]",
                "[^a]",
                "(",
                "(?:",
                ")",
                "|",
                "*",
                "+",
                "?",
                "{2}",
                "\\d",
                "\\b",
                "_",
            ]
        ),
        max_size=9,
    ).map("".join),
    st.text("ab.1_-", max_size=7),
)
def test_agrees_with_the_standard_library_where_both_know_the_expression(expression: str, name: str) -> None:
    try:
        program = compile_expression(expression)
        other = re.compile(expression)
    except (BadExpression, re.error):
        return
    assert program.matches(name) == bool(other.fullmatch(name))


def test_no_expression_takes_for_ever() -> None:
    assert not compile_expression("(a+)+b").matches("a" * 249)
    assert not compile_expression("(a*)*" * 20 + "b").matches("a" * 249)
    with pytest.raises(BadExpression, match="too large"):
        compile_expression("(a{1000}){1000}")
    with pytest.raises(BadExpression, match="too deeply"):
        compile_expression("(" * 10_000)
    with pytest.raises(BadExpression, match="too large"):
        compile_expression(f"[{'a' * MAX_LENGTH}]")
    assert MAX_STATES < 10_000
