"""kafka-client-metrics, call by call against transcripts of Kafka's own tool."""

import re
from collections.abc import Callable
from typing import Any

import pytest

_GENERATED = re.compile(r"[A-Za-z0-9_-]{22}")


def words_of(block: Any) -> list[str]:
    """The words of a captured call, without the address."""
    words = block.words[1:]
    at = words.index("--bootstrap-server")
    words = words[:at] + words[at + 2 :]
    # An empty value at the end of a line was written as nothing.
    return [*words, ""] if words[-1] == "--metrics" else words


def described(lines: list[str]) -> list[list[str]]:
    """Subscriptions in any order: Kafka's is that of a hash table."""
    found: list[list[str]] = []
    for line in lines:
        if line.startswith("Client metrics configs for"):
            found.append([])
        found[-1].append(line)
    return sorted(found)


@pytest.mark.parametrize("name", ["client-metrics", "client-metrics-with-receiver"])
def test_transcripts(name: str, tool_at: Callable[..., Any], transcript: Callable[[str], list[Any]]) -> None:
    if name == "client-metrics":
        configs = "metrics=org.apache.kafka.producer.,interval.ms=30000,match=[client_id=a.*]"
        words = (
            "--alter",
            "--entity-type",
            "client-metrics",
            "--entity-name",
            "cm1",
            "--add-config",
            configs,
        )
        assert tool_at("kafka-configs", *words).code == 0
    generated: dict[str, str] = {}
    for block in transcript(name):
        result = tool_at("kafka-client-metrics", *words_of(block))
        assert result.code == block.code, block.command
        lines = list(block.stdout)
        if "--generate-name" in block.command:
            ours, theirs = (_GENERATED.search(each) for each in (result.lines[0], lines[0]))
            assert ours is not None
            assert theirs is not None
            generated[theirs[0]] = ours[0]
        for theirs_, ours_ in generated.items():
            lines = [line.replace(theirs_, ours_) for line in lines]
        if "--describe" in block.words and lines[0].startswith("Client"):
            assert described(result.lines) == described(lines), block.command
        else:
            while lines and not lines[-1]:
                lines.pop()
            shown = list(result.lines)
            while shown and not shown[-1]:
                shown.pop()
            assert shown == lines, block.command
        if block.stderr and "ERROR" not in block.stderr[0]:
            assert result.errors[0] == block.stderr[0], block.command
    for left in tool_at("kafka-client-metrics", "--list").lines:
        if left:
            tool_at("kafka-client-metrics", "--delete", "--name", left)


def test_options(tool: Callable[..., Any]) -> None:
    both = tool("kafka-client-metrics", "--list", "--describe", "--bootstrap-server", "x:1")
    assert both.code == 1
    assert both.errors[0].startswith("Command must include exactly one action")
    assert tool("kafka-client-metrics", "--list").errors[0].startswith("Missing required argument")
