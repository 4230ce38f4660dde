import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from moldau.cli.commands.data.consume import Shown, formatter, parse_start, text_of
from moldau.client.consumer.consumer import BEGINNING, END, at_offset, at_timestamp
from moldau.client.consumer.fetched import ConsumerRecord
from moldau.protocol.records import TimestampType
from moldau.testing import Broker

RECORD = ConsumerRecord(
    topic="orders",
    partition=1,
    offset=7,
    timestamp=1_700_000_000_000,
    timestamp_type=TimestampType.CREATE_TIME,
    key=b"k",
    value="grün\n".encode(),
    headers=(("h", b"1"), ("n", None)),
    leader_epoch=0,
)


def test_what_was_written_is_read(moldau: Any) -> None:
    moldau("produce", "orders", input="a\nb\nc\n")
    assert moldau("consume", "orders").stdout == "a\nb\nc\n"
    assert moldau("consume", "orders", "--max", "2").stdout == "a\nb\n"
    assert moldau("consume", "orders", "--from", "1", "--offsets").stdout == "0:1\tb\n0:2\tc\n"


def test_bytes_go_out_as_they_are(moldau: Any) -> None:
    moldau("produce", "orders", input=b"\xff\x00\xfe\n")
    assert moldau("consume", "orders").stdout_bytes == b"\xff\x00\xfe\n"


def test_records_as_json(moldau: Any) -> None:
    moldau("produce", "orders", "-K", ":", "-H", "t=1", "--null-value", "-", input=b"a:1\n\xff:-\n")
    first, second = map(json.loads, moldau("consume", "orders", "--json").stdout.splitlines())
    timestamp = first.pop("timestamp")
    assert timestamp > 1_700_000_000_000
    assert first == {
        "topic": "orders",
        "partition": 0,
        "offset": 0,
        "timestamp_type": "CREATE_TIME",
        "key": "a",
        "value": "1",
        "headers": [["t", "1"]],
    }
    assert (second["key"], second["value"]) == ({"base64": "/w=="}, None)


def test_one_partition_and_nothing_there(moldau: Any) -> None:
    moldau("topics", "create", "orders", "-p", "2")
    moldau("produce", "orders", "-p", "1", input="one\n")
    assert moldau("consume", "orders", "-p", "1").stdout == "one\n"
    result = moldau("consume", "orders", "-p", "0")
    assert result.stdout == ""
    assert "No records from earliest on in orders" in result.stderr
    assert moldau("consume", "orders", "--from", "latest", "--no-follow").stdout == ""
    assert moldau("consume", "orders", "--from", "@now").stdout == ""


def test_an_offset_that_some_partitions_do_not_have(moldau: Any, broker: Broker) -> None:
    moldau("topics", "create", "orders", "-p", "2")
    moldau("produce", "orders", "-p", "0", input="a\nb\nc\n")
    moldau("produce", "orders", "-p", "1", input="x\n")
    assert moldau("consume", "orders", "--from", "2").stdout == "c\n"


def test_from_a_moment_on(moldau: Any) -> None:
    moldau("produce", "orders", input="a\nb\n")
    assert moldau("consume", "orders", "--from", "1h ago").stdout == "a\nb\n"


def test_follow_goes_on(moldau: Any) -> None:
    moldau("produce", "orders", input="a\nb\n")
    assert moldau("consume", "orders", "--follow", "--max", "2").stdout == "a\nb\n"


@pytest.mark.slow
def test_following_ends_with_an_interrupt(moldau: Any, broker: Broker) -> None:
    moldau("produce", "orders", input="a\n")
    words = [sys.executable, "-m", "moldau", "consume", "orders", "-f", "-b", broker.bootstrap_servers]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "a\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 130


@pytest.mark.slow
def test_a_reader_that_has_enough(moldau: Any, broker: Broker) -> None:
    moldau("produce", "orders", "--count", "20000")
    words = [sys.executable, "-m", "moldau", "consume", "orders", "-b", broker.bootstrap_servers]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith("0 ")
    process.stdout.close()
    assert process.wait(30) == 1
    assert process.stderr.read() == ""
    process.stderr.close()


def test_tables(moldau: Any) -> None:
    moldau("produce", "orders", "--key", "k", input="v\n")
    head, line = moldau("consume", "orders", "--format", "table").stdout.splitlines()
    assert head.split() == ["PART", "OFFSET", "TIMESTAMP", "KEY", "VALUE"]
    assert line.split()[:2] == ["0", "0"]
    assert line.split()[3:] == ["k", "v"]


def test_mistakes(moldau: Any, broker: Broker) -> None:
    assert "topic 'nope' does not exist" in moldau("consume", "nope", code=1).stderr
    assert "neither earliest" in moldau("consume", "nope", "--from", "soon", code=2).stderr
    moldau("topics", "create", "orders")
    assert "no partition orders-9" in moldau("consume", "orders", "-p", "9", code=1).stderr
    said = moldau("consume", "orders", "--from", "99", "--follow", code=1).stderr
    assert (
        "offset 99 is not in partition orders-0 (OFFSET_OUT_OF_RANGE). Next: 'moldau offsets TOPIC'" in said
    )


def test_where_to_begin() -> None:
    assert parse_start("earliest", 0) == BEGINNING
    assert parse_start("latest", 0) == END
    assert parse_start("42", 0) == at_offset(42)
    assert parse_start("10s ago", 100_000) == at_timestamp(90_000)
    assert parse_start("@42", 100_000) == at_timestamp(42)
    with pytest.raises(ValueError, match="neither earliest"):
        parse_start("tomorrow", 0)


def test_formats() -> None:
    everything = Shown(key=True, headers=True, timestamp=True, offset=True, separator="|")
    assert formatter("value", everything)(RECORD) == (
        b"1:7|2023-11-14T22:13:20.000Z|h=1,n=null|k|gr\xc3\xbcn\n"
    )
    assert formatter("value", Shown(key=True))(RECORD._replace(key=None, value=None)) == b"null\tnull"
    assert formatter("table", everything)(RECORD).decode().endswith(r"k                     gr\xfcn\n")
    assert json.loads(formatter("json", everything)(RECORD))["value"] == "grün\n"


def test_bytes_as_text() -> None:
    assert text_of(None) == "null"
    assert text_of(b"\xff") == r"\xff"
    assert text_of("ü".encode()) == "ü"


EVIL = RECORD._replace(
    key=b"\x1b[2J", value=b"a\x1b]0;t\x07\n\tb\x9b\xff\r", headers=(("\x1b[31m", b"\x1b"),)
)


def test_nothing_commands_a_terminal() -> None:
    shown = Shown(key=True, headers=True)
    assert formatter("value", shown, terminal=True)(EVIL) == (
        b"\\u001b[31m=\\x1b\t\\u001b[2J\ta\\u001b]0;t\\u0007\n\tb\\x9b\\xff\\r"
    )
    assert formatter("value", shown)(EVIL).endswith(b"\ta\x1b]0;t\x07\n\tb\x9b\xff\r")
    for form in ("json", "table"):
        line = formatter(form, shown, terminal=True)(EVIL._replace(value="\x9b\u202e".encode()))
        assert line.decode().isprintable()
    document = formatter("json", shown, terminal=True)(EVIL._replace(value="\x7f\x9b".encode()))
    assert json.loads(document)["value"] == "\x7f\x9b"


@pytest.mark.slow
@pytest.mark.parametrize(("options", "shown"), [((), b"\\u001b[2Jhi\r\n"), (("--raw",), b"\x1b[2Jhi\r\n")])
def test_on_a_real_terminal(broker: Broker, options: tuple[str, ...], shown: bytes) -> None:
    """A terminal adds a carriage return to every line."""
    broker.create_topic("orders")
    broker.produce("orders", b"\x1b[2Jhi")
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "moldau.cli.main", "consume", "orders", *options]
    try:
        subprocess.run(
            [*command, "-b", broker.bootstrap_servers], stdin=theirs, stdout=theirs, check=True, timeout=60
        )
        assert os.read(ours, 1000) == shown
    finally:
        os.close(ours)
        os.close(theirs)
