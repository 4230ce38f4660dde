"""Files that cross over: Kafka's DumpLogSegments reads what we wrote, our kafka-dump-log what Kafka wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.apache_kafka import ApacheKafka
from benchmarks.brokers import BrokerProcess
from benchmarks.moldau_broker import MoldauBroker
from tests.conformance.kafka_tools import JavaTools, MoldauTools

FIXTURES = ("topics", "records", "batches")
PERF = ("--topic", "many", "--num-records", "50000", "--record-size", "100", "--throughput", "-1")
SUFFIXES = (".log", ".index", ".timeindex")


def written_by(broker: BrokerProcess, java_tools: JavaTools) -> Path:
    """Records of every kind, a clean stop, and the directory that is left."""
    with broker:
        assert java_tools.run_class("Fixtures", [broker.bootstrap_servers, *FIXTURES]).exit_code == 0
        smoke = java_tools.run_class("ClientSmoke", [broker.bootstrap_servers, "compressions"])
        assert smoke.exit_code == 0, smoke.stderr
        load = java_tools.run(
            "kafka-producer-perf-test", [*PERF, "--bootstrap-server", broker.bootstrap_servers]
        )
        assert load.exit_code == 0, load.stderr
    return broker.data_dir


@pytest.fixture(scope="module")
def moldau_files(tmp_path_factory: pytest.TempPathFactory, java_tools: JavaTools) -> Path:
    return written_by(MoldauBroker(tmp_path_factory.mktemp("moldau-files")), java_tools)


@pytest.fixture(scope="module")
def kafka_files(tmp_path_factory: pytest.TempPathFactory, java_tools: JavaTools) -> Path:
    return written_by(ApacheKafka(tmp_path_factory.mktemp("kafka-files")), java_tools)


def segments(data_dir: Path, suffix: str) -> list[Path]:
    """Files of partitions, without Kafka's own metadata log."""
    files = [path for path in sorted(data_dir.glob(f"*/*{suffix}")) if not path.parent.name.startswith("__")]
    assert files, f"no {suffix} files in {data_dir}"
    return files


@pytest.mark.check("DumpLogSegments 4.3.0", "reads every .log file that Moldau wrote, records included")
def test_kafka_reads_our_logs(moldau_files: Path, java_tools: JavaTools) -> None:
    for path in segments(moldau_files, ".log"):
        dumped = java_tools.run(
            "kafka-dump-log", ["--files", str(path), "--deep-iteration", "--print-data-log"]
        )
        assert (dumped.exit_code, dumped.stderr) == (0, ""), path
        assert "isvalid: false" not in dumped.stdout, path


@pytest.mark.check(
    "DumpLogSegments 4.3.0", "finds the indexes that Moldau wrote sane and in step with their logs"
)
def test_kafka_reads_our_indexes(moldau_files: Path, java_tools: JavaTools) -> None:
    for path in segments(moldau_files, ".index") + segments(moldau_files, ".timeindex"):
        for check in ("--index-sanity-check", "--verify-index-only"):
            dumped = java_tools.run("kafka-dump-log", ["--files", str(path), check])
            assert (dumped.exit_code, dumped.stderr) == (0, ""), path
            assert "mismatch" not in dumped.stdout.lower(), path


@pytest.mark.parametrize(
    ("writer", "suffix"),
    [
        pytest.param(
            *(writer, suffix),
            marks=pytest.mark.check(
                "moldau kafka-dump-log", f"prints {suffix} files of {writer} as DumpLogSegments does"
            ),
        )
        for writer in ("kafka", "moldau")
        for suffix in SUFFIXES
    ],
)
def test_our_dump_log_prints_what_kafkas_prints(
    writer: str, suffix: str, request: pytest.FixtureRequest, java_tools: JavaTools, tmp_path: Path
) -> None:
    data_dir: Path = request.getfixturevalue(f"{writer}_files")
    options = ["--print-data-log"] if suffix == ".log" else []
    files = ",".join(str(path) for path in segments(data_dir, suffix))
    ours = MoldauTools(tmp_path).run("kafka-dump-log", ["--files", files, *options])
    theirs = java_tools.run("kafka-dump-log", ["--files", files, *options])
    assert (ours.exit_code, ours.stdout) == (theirs.exit_code, theirs.stdout)
