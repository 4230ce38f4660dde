"""Transcripts of Kafka 4.3's own group tools, call by call, with ours against our broker."""

# ruff: noqa: E501 -- a message of Kafka's tools stands in one line, as long as it is

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.consumer_groups import pattern_line
from moldau.client.admin.admin import raise_errors
from moldau.client.consumer.consumer import BEGINNING
from moldau.client.groups.classic_membership import MembershipOptions
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.group_consumer import GroupConsumer
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.coordinators.groups.consumer.cluster_view import subscription_program
from moldau.protocol.errors import KafkaError
from moldau.testing import Broker

MINUTE_MS = 60_000
YEAR_2026_MS = 1_767_225_600_000
Tool = Callable[..., Any]


@pytest.fixture
def orders(broker: Broker) -> Broker:
    """The topics of the transcripts: 10, 5 and no records in orders, 3 in payments."""
    broker.create_topic("orders", 3)
    broker.create_topic("payments", 1)
    for index in range(10):
        broker.produce("orders", b"v", partition=0, timestamp_ms=YEAR_2026_MS + index * MINUTE_MS)
    for index in range(5):
        broker.produce("orders", b"w", partition=1, timestamp_ms=YEAR_2026_MS + (60 + index) * MINUTE_MS)
    for _ in range(3):
        broker.produce("payments", b"p")
    return broker


def commit(broker: Broker, group_id: str, **offsets: int) -> None:
    """Commits offsets such as ``orders_0=4`` from outside of the group."""
    given = {}
    for name, offset in offsets.items():
        topic, _, index = name.rpartition("_")
        given[TopicPartition(topic, int(index))] = CommittedOffset(offset)

    async def work() -> None:
        async with await Cluster.open(broker.bootstrap_servers) as cluster:
            raise_errors(await Groups(cluster).commit(group_id, given))

    asyncio.run(work())


@contextmanager
def member(broker: Broker, group_id: str, topic: str = "orders", **membership: Any) -> Iterator[None]:
    """A member that has read everything, committed it, and stays."""
    ready, stop = threading.Event(), threading.Event()

    async def read() -> None:
        async with await Cluster.open(broker.bootstrap_servers, client_id="console-consumer") as cluster:
            options = MembershipOptions(**membership)
            async with GroupConsumer(
                cluster, group_id, [topic], offset_reset=BEGINNING, membership=options
            ) as consumer:
                while sum(map(consumer.position, consumer.assignment)) < 15:
                    await consumer.next_batch(timeout_ms=100)
                await consumer.commit()
                ready.set()
                while not stop.is_set():
                    await consumer.next_batch(timeout_ms=20)

    thread = threading.Thread(target=lambda: asyncio.run(read()))
    thread.start()
    try:
        assert ready.wait(10)
        yield
    finally:
        stop.set()
        thread.join()


def alike(line: str) -> str:
    """A line without the random end of a member id."""
    return re.sub(r"(console-consumer)-[0-9a-f-]{36}", r"\1-<id>", line)


def check(block: Any, broker: Broker, tool: Tool) -> None:
    words = [word.replace("BOOTSTRAP", broker.bootstrap_servers) for word in block.words]
    result = tool(*words)
    told = f"{block.command}\n{result.stdout}\n{result.stderr}"
    assert sorted(map(alike, result.lines)) == sorted(
        alike(line.replace("BOOTSTRAP", broker.bootstrap_servers)) for line in block.stdout
    ), told
    for line in block.stderr:
        assert line in result.errors, told
    assert result.code == block.code, told


@pytest.mark.slow
def test_groups_that_live(orders: Broker, tool: Tool, transcript: Callable[[str], list[Any]]) -> None:
    first, second, third, *others = transcript("consumer-groups")
    for block in (first, second, third):
        check(block, orders, tool)
    commit(orders, "g-empty", orders_0=4, orders_1=5, payments_0=3)
    with member(orders, "g-classic"):
        for block in others:
            check(block, orders, tool)


def test_groups_that_rest(
    orders: Broker,
    tool: Tool,
    transcript: Callable[[str], list[Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan2.csv").write_text('"g-empty","orders",0,7\n"g-classic","orders",1,2\n')
    commit(orders, "g-empty", orders_0=4, orders_1=5, payments_0=3)
    commit(orders, "g-classic", orders_0=10, orders_1=5, orders_2=0)
    for block in transcript("consumer-groups-idle"):
        check(block, orders, tool)


def test_a_group_that_shifts(
    orders: Broker,
    tool: Tool,
    transcript: Callable[[str], list[Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.csv").write_text('"orders",0,7\n"orders",1,2\n')
    commit(orders, "g-shift", orders_0=4, orders_1=2)
    for block in transcript("consumer-groups-shift"):
        check(block, orders, tool)


@pytest.mark.slow
def test_static_members_have_a_column(orders: Broker, tool_at: Tool) -> None:
    with member(orders, "g-static", group_instance_id="till-7", session_timeout_ms=6000):
        head, row = tool_at("kafka-consumer-groups", "--describe", "--group", "g-static", "--members").lines[
            1:
        ]
        assert head.split() == [
            "GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS",
        ]  # fmt: skip
        assert row.split()[2:] == ["till-7", "/127.0.0.1", "console-consumer", "3"]


def test_kafka_groups(orders: Broker, tool_at: Tool) -> None:
    commit(orders, "g-simple", orders_0=1)
    with member(orders, "g-classic"):
        result = tool_at("kafka-groups", "--list")
        assert result.lines == [
            "GROUP                TYPE                 PROTOCOL            ",
            *sorted(result.lines[1:], reverse=result.lines[1].startswith("g-s")),
        ]
        assert sorted(result.lines[1:]) == [
            "g-classic            Classic              consumer             ",
            "g-simple             Classic                                   ",
        ]
        assert len(tool_at("kafka-groups", "--list", "--consumer").lines) == 3
        assert len(tool_at("kafka-groups", "--list", "--protocol", "consumer").lines) == 2
        assert len(tool_at("kafka-groups", "--list", "--group-type", "classic").lines) == 3
        for words in (("--share",), ("--streams",), ("--group-type", "consumer")):
            assert len(tool_at("kafka-groups", "--list", *words).lines) == 1
    wrong = tool_at("kafka-groups", "--list", "--group-type", "foo")
    assert wrong.code == 1
    assert wrong.errors == [
        "--group-type must be a valid group type.",
        "java.lang.IllegalArgumentException: --group-type must be a valid group type.",
    ]


def test_a_console_consumer_of_a_group_goes_on_where_it_stopped(orders: Broker, tool_at: Tool) -> None:
    words = ("--topic", "orders", "--group", "g", "--from-beginning", "--timeout-ms", "2000")
    first = tool_at("kafka-console-consumer", *words, "--max-messages", "6")
    assert first.stderr == "Processed a total of 6 messages\n"
    second = tool_at("kafka-console-consumer", *words, "--max-messages", "9")
    assert second.stderr == "Processed a total of 9 messages\n"
    assert sorted(first.lines + second.lines) == ["v"] * 10 + ["w"] * 5
    listed = tool_at("kafka-consumer-groups", "--describe", "--group", "g")
    assert [line.split()[2:6] for line in listed.lines[2:]] == [
        ["0", "10", "10", "0"],
        ["1", "5", "5", "0"],
        ["2", "0", "0", "0"],
    ]


def test_reset_scopes_that_do_not_exist(orders: Broker, tool_at: Tool) -> None:
    reset = ("--reset-offsets", "--group", "g", "--dry-run", "--to-earliest")
    assert "do not exist" in tool_at("kafka-consumer-groups", *reset, "--topic", "orders:9").stdout
    wrong = tool_at("kafka-consumer-groups", *reset, "--topic", "orders:x")
    assert (wrong.code, wrong.errors[0]) == (1, 'For input string: "x"')
    none = tool_at("kafka-consumer-groups", *reset)
    assert (none.code, none.errors[0]) == (
        1,
        "One of the reset scopes should be defined: --all-topics, --topic.",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets, --validate-regex."),
        (("--list", "--describe"), "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets, --validate-regex."),
        (("--describe",), "Option [describe] takes one of these options: [group], [all-groups]"),
        (("--describe", "--group", "a", "--state", "empty"), "Option [describe] does not take a value for [state]"),
        (("--delete", "--group", "a", "--topic", "b"), "The consumer does not support topic-specific offset deletion from a consumer group."),
        (("--delete-offsets", "--group", "a"), "Option [delete-offsets] takes the following options: [group], [topic]"),
        (("--reset-offsets", "--group", "a", "--execute", "--dry-run"), "Option [reset-offsets] only accepts one of [execute] and [dry-run]"),
        (("--reset-offsets", "--group", "a", "--dry-run", "--to-latest", "--to-earliest"), 'Option "[to-earliest]" can\'t be used with option "[to-latest]"'),
        (("--describe", "--group", "a", "--all-groups"), 'Option "[group]" can\'t be used with option "[all-groups]"'),
    ],
)  # fmt: skip
def test_words_that_make_no_command(words: tuple[str, ...], message: str, tool: Tool) -> None:
    result = tool("kafka-consumer-groups", *words, "--bootstrap-server", "127.0.0.1:1")
    assert message in result.errors
    assert result.code == 1


@pytest.mark.parametrize(
    ("pattern", "verdict"),
    [
        ("a|b", "valid"),
        ("(a", "invalid: missing closing )"),
        ("a)", "invalid: regexp/syntax: internal error"),
        ("(?=a)", "invalid: invalid or unsupported Perl syntax"),
        (r"(a)\1", "invalid: invalid escape sequence"),
        # Python's own expressions know neither of these, or take them for something else.
        (r"\pL+\z", "valid"),
        ("a(?i)b", "valid"),
        ("a{1001}", "invalid: invalid repeat count"),
        ("a*+", "invalid: invalid nested repetition operator"),
    ],
)
def test_patterns(pattern: str, verdict: str) -> None:
    """As the broker says: a pattern that is valid here can be subscribed to."""
    assert pattern_line(pattern) == f"The regular expression `{pattern}` is {verdict}."
    if verdict == "valid":
        subscription_program(pattern)
    else:
        with pytest.raises(KafkaError) as refused:
            subscription_program(pattern)
        assert refused.value.message.endswith(f" is not a valid regular expression{verdict[7:]}.")


def test_a_group_without_members_and_offsets_has_no_table(orders: Broker, tool_at: Tool) -> None:
    async def come_and_go() -> None:
        async with (
            await Cluster.open(orders.bootstrap_servers) as cluster,
            GroupConsumer(cluster, "g-idle", ["orders"], auto_commit=False) as consumer,
        ):
            await consumer.join()

    asyncio.run(come_and_go())
    result = tool_at("kafka-consumer-groups", "--describe", "--group", "g-idle")
    assert (result.stdout, result.errors) == ("", ["", "Consumer group 'g-idle' has no active members."])
