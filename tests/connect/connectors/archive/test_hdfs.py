"""An archive in a real HDFS, whose NameNode is taken away; in ``make test-connect``."""

import os
from collections.abc import Iterator

import pytest

from moldau.base.names import TopicPartition
from moldau.base.object_stores import StoreError
from moldau.connect.connector import SinkTaskContext
from moldau.connect.connectors.archive.hdfs import HdfsStore, check_url
from moldau.connect.connectors.archive.sink import ArchiveSink, ArchiveSinkTask
from moldau.connect.connectors.archive.source import ArchiveSource
from moldau.connect.errors import ConfigException, RetriableException
from moldau.testing.connect import read, write
from tests.connect.connectors.archive.test_sink import record
from tests.connect.java_servers import hdfs, hdfs_url
from tests.connect.servers import Server
from tests.shared.waiting import wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if not os.environ.get("MOLDAU_TEST_CONNECT"):
        pytest.skip("part of make test-connect")
    with hdfs() as server:
        yield server


def test_places() -> None:
    assert check_url("hdfs://name:8020/a%20b/c/") == ("hdfs://name:8020", "/a b/c")
    assert check_url("hdfs://service") == ("hdfs://service", "")
    for bad in ("", "name:8020", "http://name/", "hdfs:///x", "hdfs://n:x/", "hdfs://u@n/", "hdfs://n/../x"):
        with pytest.raises(ConfigException):
            check_url(bad)


def test_settings() -> None:
    assert not ArchiveSink.check({"hdfs.url": "hdfs://n:1/x"})
    assert "archive.path" in ArchiveSink.check({"hdfs.url": "hdfs://n:1/x", "archive.path": "/x"})
    assert "hdfs.url" in ArchiveSink.check({"hdfs.url": "webhdfs://n:1/x"})
    assert ArchiveSink.hosts({"hdfs.url": "hdfs://n:1/x"}) == ["n"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_names(server: Server) -> None:
    store = HdfsStore(f"{hdfs_url(server)}/a b/names")
    store.put("x/1", b"one")
    store.put("x/1", b"another")
    store.put("x/y=1/ü%41 ?#", b"u" * 3_000_000)
    store.put("x/empty", b"")
    assert store.names("x") == ["x/1", "x/empty", "x/y=1/ü%41 ?#"]
    assert (store.get("x/1"), store.get("x/empty")) == (b"another", b"")
    assert len(store.get("x/y=1/ü%41 ?#")) == 3_000_000
    for _ in range(2):
        store.delete("x/1")
    assert store.names("nowhere") == []
    with pytest.raises(FileNotFoundError):
        store.get("x/1")
    with pytest.raises(StoreError, match="leads out"):
        store.put("../x", b"")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["parquet", "avro", "json"])
def test_there_and_back(server: Server, kind: str) -> None:
    settings = {"hdfs.url": f"{hdfs_url(server)}/{kind}"}
    for _ in range(2):  # the second time everything is there already
        write(
            ArchiveSink, {**settings, "flush.size": "4", "format.class": kind}, [record(n) for n in range(8)]
        )
    found = read(ArchiveSource, settings, count=8, polls=20)
    assert [each.key for each in found.records] == [f"k{n}" for n in range(8)]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_name_node_that_is_away_and_back(server: Server) -> None:
    settings = {"hdfs.url": f"{hdfs_url(server)}/away", "flush.size": "2", "topics": "orders"}
    task = ArchiveSinkTask()
    task.start(settings, SinkTaskContext("test", 0))
    task.put([record(n) for n in range(4)])
    server.stop()
    with pytest.raises(RetriableException, match="HDFS cannot be asked"):
        task.put([record(4), record(5)])
    server.start()
    again = ArchiveSinkTask()  # as a worker does it: from the last commit, with a task that knows nothing
    again.start(settings, SinkTaskContext("test", 0))

    def put() -> bool:
        try:
            again.put([record(n) for n in range(8)])
        except RetriableException:
            return False  # the DataNode has to report first
        return True

    wait_until(put, "HDFS takes no files", seconds=200)
    assert again.kept({TopicPartition("orders", 0): 8}) == {TopicPartition("orders", 0): 8}
    found = read(ArchiveSource, {"hdfs.url": settings["hdfs.url"]}, count=9, polls=20)
    assert [each.key for each in found.records] == [f"k{n}" for n in range(8)]
