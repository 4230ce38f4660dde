"""Help, version and errors are the same for all tools."""

import io
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from moldau.cli.kafka_tools.framework.exceptions import illegal_argument
from moldau.cli.kafka_tools.framework.options import Option, OptionError, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool, run_standard, run_tool
from moldau.cli.main import KAFKA_TOOLS

TOOL = Tool(
    "kafka-thing",
    "Does a thing.",
    Options(
        Option("topic", "The topic.", "topic"),
        Option("old", "", "x", hidden=True),
        Option("with-a-name-of-some-length", "Long.", "value", optional=True, default=3),
    ),
    ("--topic a",),
    "Not all of it.",
)


def console() -> tuple[Console, io.BytesIO, io.BytesIO]:
    out, err = io.BytesIO(), io.BytesIO()
    return Console(io.BytesIO(), out, err), out, err


def run(main: Callable[[Sequence[str], Console], int], *words: str) -> tuple[int, str, str]:
    streams, out, err = console()
    code = run_tool(TOOL, main, words, streams)
    return code, out.getvalue().decode(), err.getvalue().decode()


def test_help_shows_every_option_but_hidden_ones() -> None:
    code, out, err = run(lambda words, console: 9, "--help")
    assert code == 0
    assert err == ""
    assert "--topic <topic>" in out
    assert "--with-a-name-of-some-length [<value>]" in out
    assert "(default: 3)" in out
    assert "moldau kafka-thing --topic a" in out
    assert "Not all of it." in out
    assert "--old" not in out


def test_version() -> None:
    assert run(lambda words, console: 9, "--version") == (0, "4.3.0\n", "")


def test_wrong_words_are_followed_by_examples() -> None:
    def main(words: Sequence[str], console: Console) -> int:
        raise OptionError("no", with_usage=words[0] == "usage")

    code, out, err = run(main, "usage")
    assert (code, out) == (1, "")
    assert err.splitlines()[0] == "no"
    assert "moldau kafka-thing --topic a" in err
    assert run(main, "plain") == (1, "", "no\n")


def test_no_error_is_a_stack_trace() -> None:
    def fail(words: Sequence[str], console: Console) -> int:
        raise illegal_argument("bad")

    def interrupt(words: Sequence[str], console: Console) -> int:
        raise KeyboardInterrupt

    assert run(fail, "x") == (1, "", "java.lang.IllegalArgumentException: bad\n")
    assert run(interrupt, "x") == (130, "", "")


def test_output_keeps_bytes_that_are_no_text() -> None:
    streams, out, err = console()
    streams.print(b"a\xff".decode("utf-8", "surrogateescape"))
    streams.error("b")
    assert out.getvalue() == b"a\xff\n"
    assert err.getvalue() == b"b\n"


def test_standard_streams(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    def main(words: Sequence[str], console: Console) -> int:
        console.write(b"x")
        return 3

    streams, out, _ = console()
    monkeypatch.setattr(Console, "standard", classmethod(lambda cls: streams))
    assert run_standard(TOOL, main, ["a"]) == 3
    assert out.getvalue() == b"x"


@pytest.mark.parametrize("name", sorted(KAFKA_TOOLS))
def test_every_tool_has_help_and_refuses_what_it_does_not_know(tool: Callable[..., Any], name: str) -> None:
    assert tool(name, "--help").code == 0
    first = ("cluster-id",) if name == "kafka-cluster" else ()
    refused = tool(name, *first, "--frobnicate")
    assert refused.code == 1
    assert "frobnicate" in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize("name", sorted(KAFKA_TOOLS))
def test_every_tool_shows_its_use_without_words(tool: Callable[..., Any], name: str) -> None:
    result = tool(name)
    # Kafka's own says only what is missing.
    shown = "Missing required option(s)" if name == "kafka-leader-election" else f"moldau {name}"
    assert shown in result.stdout + result.stderr
    shows_help = name == "kafka-producer-perf-test" or name.startswith("kafka-verifiable-")
    assert result.code == (0 if shows_help else 1)


class Terminal(io.BytesIO):
    def isatty(self) -> bool:
        return True


def test_output_is_kafkas_when_piped_and_commands_no_terminal() -> None:
    piped, out, err = console()
    for streams in (piped, Console(io.BytesIO(), Terminal(), Terminal())):
        streams.print("group \x1b[2J")
        streams.write(b"\xff\x1b\n")
        streams.error("no \x07")
    assert (out.getvalue(), err.getvalue()) == (b"group \x1b[2J\n\xff\x1b\n", b"no \x07\n")
    assert isinstance(streams.stdout, Terminal)
    assert isinstance(streams.stderr, Terminal)
    assert streams.stdout.getvalue() == b"group \\u001b[2J\n\\xff\\u001b\n"
    assert streams.stderr.getvalue() == b"no \\u0007\n"
