"""Processes that hold tasks: started when they are needed, started again when they are gone."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

pytest.importorskip("pyspark")

from moldau.base.names import TopicPartition
from moldau.spark.background_loop import connect
from moldau.spark.write.exactly_once import end_all
from moldau.streams import Consumed, Produced, Serdes, StreamsBuilder
from moldau.streams.runner import hosts
from moldau.streams.runner.application import StreamsOptions, prepared
from moldau.streams.runner.host import HostFailed
from moldau.streams.runner.hosts import run_order
from moldau.streams.runner.orders import Done, Order, TaskOrder, place_of
from moldau.streams.runner.programs import program_of
from moldau.testing import Broker


def hosts_in(directory: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdecimal() else b""
        except OSError:
            continue  # it has ended meanwhile
        if b"moldau.streams.runner.host" in command and str(directory).encode() in command:
            found.append(int(entry.name))
    return found


@pytest.fixture
def short_path() -> Iterator[Path]:
    """The path of a socket may not be as long as that of a test's own folder."""
    with TemporaryDirectory(prefix="m-", dir="/tmp") as folder:
        yield Path(folder)


def test_sockets_are_below_tmp_where_the_own_folder_is_too_long(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(short_path))
    assert hosts._directory().parent == short_path
    longer = short_path / ("x" * 90)
    longer.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(longer))
    assert hosts._directory().parent == Path("/tmp")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_host_that_was_killed_is_replaced(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(short_path))
    builder = StreamsBuilder()
    values = builder.stream("in", Consumed.with_(Serdes.string(), Serdes.string())).map_values(int)
    values.group_by_key().reduce(max, "most").to_stream().to(
        "out", Produced.with_(Serdes.string(), Serdes.long())
    )
    try:
        with Broker() as broker:
            broker.create_topic("in", 1)
            application = prepared(
                program_of(builder, "counting"), "app", StreamsOptions(broker.bootstrap_servers), 1
            )
            for value in ("1", "2", "x"):
                broker.produce("in", value, key="a")
            loop = connect(application.cluster)

            def batch(first: int) -> Done:
                at = [place_of({TopicPartition("in", 0): offset}, 0) for offset in (first, first + 1)]
                wanted = Order(application, "moldau-streams-app-0-0", (TaskOrder(0, 0, at[0], at[1]),))
                done = run_order(wanted, 0)
                loop.run(end_all(loop.cluster, [done.part] if done.part else [], commit=True))
                return done

            assert batch(0).restored == 1
            (host,) = hosts_in(short_path)
            os.kill(host, signal.SIGKILL)
            assert batch(1).restored == 1
            assert [int.from_bytes(r.value, "big") for r in broker.records("out")] == [1, 2]
            with pytest.raises(HostFailed, match=r"Exception caught in process.*ValueError"):
                batch(2)
    finally:
        for host in hosts_in(short_path):
            os.kill(host, signal.SIGKILL)
