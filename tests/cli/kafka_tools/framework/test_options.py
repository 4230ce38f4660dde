"""The option rules of Kafka's tools, and their complaints."""

import pytest

from moldau.cli.kafka_tools.framework.options import (
    Option,
    OptionError,
    Options,
    exactly_one,
    parse_pairs,
    refuse_with,
    require,
)

OPTIONS = Options(
    Option("topic", "", "topic"),
    Option("list", ""),
    Option("count", "", "number", int, 7),
    Option("rate", "", "number", float),
    Option("codec", "", "codec", optional=True),
    Option("timeout", "", "ms", int, 10, optional=True),
    Option("props", "", "key=value", several=True),
    Option("server", "", "address", letter="b"),
)


def test_the_three_ways_to_give_a_value_mean_the_same() -> None:
    for words in (["--topic", "a"], ["--topic=a"], ["-topic", "a"]):
        assert OPTIONS.parse(words).value("topic") == "a"
    assert OPTIONS.parse(["-b", "host:1"]).value("server") == "host:1"


def test_a_required_value_is_the_next_word_whatever_it_looks_like() -> None:
    given = OPTIONS.parse(["--topic", "--list"])
    assert given.value("topic") == "--list"
    assert not given.has("list")
    assert OPTIONS.parse(["--topic", ""]).value("topic") == ""


def test_a_value_that_may_be_left_out() -> None:
    assert OPTIONS.parse(["--codec", "--list"]).value("codec") is None
    assert OPTIONS.parse(["--codec", "zstd", "--list"]).value("codec") == "zstd"
    assert OPTIONS.parse(["--timeout", "-1"]).value("timeout") == -1
    assert OPTIONS.parse(["--timeout"]).value("timeout") == 10


def test_several_values_end_at_the_next_option() -> None:
    given = OPTIONS.parse(["--props", "a=1", "b=2", "--list", "--props", "c=3"])
    assert given.values("props") == ["a=1", "b=2", "c=3"]
    assert given.has("list")


def test_defaults_and_numbers() -> None:
    given = OPTIONS.parse(["--rate", "-1"])
    assert given.value("count") == 7
    assert given.value("rate") == -1.0
    assert given.value("topic") is None


def test_words_without_an_option_are_kept_aside() -> None:
    assert OPTIONS.parse(["stray", "--list", "--", "--topic"]).rest == ["stray", "--topic"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--frob"], "frob is not a recognized option"),
        (["--li"], "li is not a recognized option"),
        (["--topic"], "Option topic requires an argument"),
        (["--props", "--list"], "Option props requires an argument"),
    ],
)
def test_words_that_make_no_command(words: list[str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        OPTIONS.parse(words)


def test_values_are_read_when_they_are_asked_for() -> None:
    given = OPTIONS.parse(["--count", "x", "--topic", "a", "--topic", "b"])
    with pytest.raises(OptionError, match="Cannot parse argument 'x' of option count"):
        given.value("count")
    with pytest.raises(
        OptionError, match="Found multiple arguments for option topic, but you asked for only one"
    ):
        given.value("topic")
    assert given.values("topic") == ["a", "b"]


def test_checks_have_the_words_of_kafkas_tools() -> None:
    given = OPTIONS.parse(["--topic", "a", "--list"])
    require(given, "topic")
    with pytest.raises(OptionError) as missing:
        require(given, "topic", "count")
    assert missing.value.message == 'Missing required argument "[count]"'
    with pytest.raises(OptionError) as both:
        refuse_with(given, "topic", ("count", "list"))
    assert both.value.message == 'Option "[topic]" can\'t be used with option "[list]"'
    with pytest.raises(OptionError) as one:
        exactly_one(given, "topic", "list")
    assert one.value.message == "Exactly one of the following arguments is required: [topic], [list]"
    exactly_one(given, "topic", "count")


def test_pairs() -> None:
    assert parse_pairs(["a=1", "b", "c=d=e", "a=2"]) == {"a": "2", "b": "", "c": "d=e"}
