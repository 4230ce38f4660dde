"""kafka-dump-log on files of a real Kafka, and on broken ones."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moldau.cli.kafka_tools.dump_log import TOOL, Settings, batch_line, main, record_line
from moldau.cli.kafka_tools.framework.tool import Console, run_tool
from moldau.inspection import dump
from moldau.protocol.records import Record, encode_batch
from moldau.testing import Broker

GOLDEN = Path(__file__).parents[2] / "data" / "golden_bytes"
ZERO = "00000000000000000000"
TXN_INDEX = "0000 000000000000000d 0000000000000004 0000000000000007 0000000000000008"
SNAPSHOT = (
    "0001 4cd357c9 00000001 000000000000000d 0000 00000002 0000000000000002 00000002 "
    "0000019b76daa802 ffffffff 0000000000000000"
)


def golden(name: str) -> list[bytes]:
    return [bytes.fromhex(b["hex"]) for b in json.loads((GOLDEN / f"{name}.json").read_text())["batches"]]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The data directory of which the transcript was made, as far as it is known."""
    transactions = golden("transaction-commit-abort")
    for path, content in {
        f"gb-headers-0/{ZERO}.log": golden("headers")[0],
        f"gb-null-0/{ZERO}.log": golden("nulls")[0],
        f"gb-zstd-0/{ZERO}.log": golden("zstd")[0],
        f"gb-lat-0/{ZERO}.log": golden("log-append-time")[0],
        f"gb-txn-0/{ZERO}.log": transactions[0],
        f"gb-txn-0/{3:020d}.log": b"".join(transactions[1:]),
        f"gb-txn-0/{3:020d}.txnindex": bytes.fromhex(TXN_INDEX),
        f"gb-txn-0/{3:020d}.snapshot": bytes.fromhex(SNAPSHOT),
        "orders-0/none.log": b"",
        "orders-0/leader-epoch-checkpoint": b"0\n0\n",
    }.items():
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
    return tmp_path


def test_the_transcript(
    directory: Path, tool: Callable[..., Any], transcript: Callable[[str], list[Any]]
) -> None:
    for block in transcript("dump-log"):
        result = tool(*(word.replace("DATA", str(directory)) for word in block.words))
        assert result.stdout.replace(str(directory), "DATA").splitlines() == block.stdout, block.command
        shown = result.stderr.replace(str(directory), "DATA").splitlines()
        assert [line for line in shown if not line.startswith("hint: ")] == block.stderr
        assert result.code == block.code


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A segment of our own broker with its indexes."""
    with Broker({"log.index.interval.bytes": "100"}, data_dir=tmp_path / "data") as broker:
        for index in range(40):
            broker.produce("t", b"v" * 30, key=b"%d" % index, timestamp_ms=1_000_000 + index)
    return tmp_path / "data" / "t-0" / f"{ZERO}.log"


def test_indexes_of_our_broker(log: Path, tool: Callable[..., Any]) -> None:
    for suffix, word in ((".index", "position: "), (".timeindex", "timestamp: ")):
        path = str(log.with_suffix(suffix))
        shown = tool("kafka-dump-log", "--files", path)
        assert (shown.code, shown.stderr) == (0, "")
        assert word in shown.lines[1]
        assert tool("kafka-dump-log", "--files", path, "--verify-index-only").lines == [f"Dumping {path}"]
        checked = tool("kafka-dump-log", "--files", path, "--index-sanity-check")
        assert checked.lines == [f"Dumping {path}", f"{path} passed sanity check."]
    assert len(tool("kafka-dump-log", "--files", str(log), "--deep-iteration").lines) == 82


def test_indexes_that_do_not_fit_the_log(log: Path, tool: Callable[..., Any]) -> None:
    index, times = log.with_suffix(".index"), log.with_suffix(".timeindex")
    data = bytearray(index.read_bytes())
    data[3] += 1
    index.write_bytes(data)
    shown = tool("kafka-dump-log", "--files", str(index))
    assert shown.code == 0
    assert shown.errors[0] == f"Mismatches in :{index}"
    assert shown.errors[1].startswith("  Index offset: ")
    data = bytearray(times.read_bytes())
    data[7] ^= 0x40
    times.write_bytes(data)
    assert f"Found timestamp mismatch in :{times}" in tool("kafka-dump-log", "--files", str(times)).errors
    data[11] += 1
    times.write_bytes(bytes(data[:12]) + b"\0" * 11 + b"\x7f")
    found = tool("kafka-dump-log", "--files", str(times)).errors
    assert f"The following indexed offsets are not found in :{times}" in found
    assert any(line.endswith("found log offset: -1") for line in found)


def test_broken_indexes(log: Path, tool: Callable[..., Any]) -> None:
    index = log.with_suffix(".index")
    index.write_bytes(b"\0\0\0\1\0\0\0\7")
    beyond = tool("kafka-dump-log", "--files", str(index))
    assert beyond.code == 1
    assert beyond.errors[0].startswith('Exception in thread "main" org.apache.kafka.common.errors.Corrupt')
    index.write_bytes(b"123")
    assert (
        "neither positive nor a multiple of 8"
        in tool("kafka-dump-log", "--files", str(index), "--index-sanity-check").stderr
    )
    index.write_bytes(b"")
    assert tool("kafka-dump-log", "--files", str(index)).lines[1] == f"{index} is empty."


def test_broken_logs(log: Path, tool: Callable[..., Any], tmp_path: Path) -> None:
    with log.open("ab") as file:
        file.write(b"garbage")
    assert (
        tool("kafka-dump-log", "--files", str(log)).lines[-1]
        == f"Found 7 invalid bytes at the end of {ZERO}.log"
    )
    limited = tool("kafka-dump-log", "--files", str(log), "--max-bytes", "400")
    assert "invalid bytes" not in limited.stdout
    other = tmp_path / f"{ZERO}.log"
    shutil.copy(log, other)
    data = bytearray(other.read_bytes())
    data[61:70] = b"\xff" * 9
    other.write_bytes(data)
    result = tool("kafka-dump-log", "--files", str(other), "--print-data-log")
    assert result.code == 1
    assert "isvalid: false" in result.lines[2]
    assert "Cannot read the records of the batch at position 0" in result.errors[0]
    assert result.lines[-2].startswith("| offset: 39 "), "the batches behind the bad one are shown"
    data[8:12] = b"\0\0\0\0"
    other.write_bytes(data)
    assert (
        "Found record size 0 smaller than minimum record overhead (14)"
        in tool("kafka-dump-log", "--files", str(other)).stderr
    )


def test_files_that_are_not_there(tool: Callable[..., Any], tmp_path: Path) -> None:
    for suffix in ("log", "index", "timeindex", "txnindex", "snapshot"):
        result = tool("kafka-dump-log", "--files", str(tmp_path / f"{ZERO}.{suffix}"))
        assert result.code == 1
        assert 'Exception in thread "main" java.nio.file.NoSuchFileException: ' in result.stderr
    (tmp_path / f"{ZERO}.log").mkdir()
    assert tool("kafka-dump-log", "--files", str(tmp_path / f"{ZERO}.log")).code == 1


def test_snapshots(tool: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / f"{ZERO}.snapshot"
    file.write_bytes(b"\0\1junkjunkjunk")
    result = tool("kafka-dump-log", "--files", str(file))
    assert result.code == 0
    assert result.errors[0].startswith("Snapshot failed schema validation")
    checkpoint = tmp_path / f"{7:020d}-{3:010d}.checkpoint"
    checkpoint.write_bytes(golden("uncompressed")[0])
    assert tool("kafka-dump-log", "--files", str(checkpoint)).lines[1] == "Snapshot end offset: 7, epoch: 3"
    (tmp_path / "bootstrap.checkpoint").write_bytes(b"")
    assert (
        "KRaft bootstrap snapshot"
        in tool("kafka-dump-log", "--files", str(tmp_path / "bootstrap.checkpoint")).lines
    )


def one_batch(**options: Any) -> dump.DumpedBatch:
    records = [Record(5, 9, b"\0\0\0\7", b"\0" * 7 + b"\x2a", (("h", None),))]
    data = bytes(encode_batch(records, base_offset=5, **options))
    (batch,) = dump.read_batches(io.BytesIO(data), "x")
    return batch


def test_decoders(directory: Path, tool: Callable[..., Any]) -> None:
    batch = one_batch()
    (record,) = dump.read_records(batch)
    plain = "| offset: 5 CreateTime: 9 keySize: 4 valueSize: 8 sequence: -1 headerKeys: [h]"
    assert record_line(batch, record, Settings()) == plain
    path = str(directory / f"gb-headers-0/{ZERO}.log")
    for name, shown in (
        ("String", "payload: v"),
        ("org.apache.kafka.tools.api.DefaultDecoder", "payload: 76"),
    ):
        result = tool("kafka-dump-log", "--files", path, "--value-decoder-class", name)
        assert result.lines[-1].endswith(shown)
    unfit = tool("kafka-dump-log", "--files", path, "--value-decoder-class", "LongDecoder")
    assert unfit.code == 1
    assert "1 bytes are no number of 8 bytes" in unfit.stderr
    unknown = tool("kafka-dump-log", "--files", path, "--key-decoder-class", "foo")
    assert unknown.errors == [
        "java.lang.ClassNotFoundException: foo (there are String, Default, Integer, Long)"
    ]
    alone = tool("kafka-dump-log", "--files", path, "--print-data-log", "--skip-record-metadata")
    assert alone.lines[-1] == "| key: k payload: v"


def test_batches_of_compaction_and_of_unknown_codecs() -> None:
    assert "deleteHorizonMs: OptionalLong[9]" in batch_line(one_batch(delete_horizon=True))
    batch = one_batch()
    odd = dump.DumpedBatch(0, batch.header._replace(attributes=6), batch.data, False)  # type: ignore[union-attr]
    assert "compresscodec: unknown (6)" in batch_line(odd)


@pytest.mark.parametrize("name", ["remote-log-metadata-decoder", "cluster-metadata-decoder"])
def test_decoders_that_come_later(tool: Callable[..., Any], name: str) -> None:
    result = tool("kafka-dump-log", "--files", "x.log", f"--{name}")
    assert result.errors[0].startswith(f"--{name} is not supported: ")
    assert result.code == 1


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(noise=st.binary(max_size=150))
def test_no_bytes_make_a_stack_trace(tmp_path: Path, noise: bytes) -> None:
    paths = [
        tmp_path / f"{ZERO}.{suffix}" for suffix in ("log", "index", "timeindex", "txnindex", "snapshot")
    ]
    for path in paths:
        path.write_bytes(noise)
    console = Console(io.BytesIO(), io.BytesIO(), io.BytesIO())
    words = ["--files", ",".join(map(str, paths)), "--print-data-log"]
    assert run_tool(TOOL, main, words, console) in (0, 1)
