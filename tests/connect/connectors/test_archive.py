"""The books' archive, through a worker: a topic goes to storage, and storage brings it back as another topic,
record by record the same. In a folder; in an S3-like bucket and in HDFS too in ``make test-connect``.
"""

import http.client
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.testing import Broker
from tests.connect.conftest import running
from tests.connect.connectors.archive.test_stores import bucket
from tests.connect.java_servers import hdfs, hdfs_url
from tests.connect.servers import s3_server
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow

BYTES = {
    f"{part}.converter": "org.apache.kafka.connect.converters.ByteArrayConverter" for part in ("key", "value")
}


@contextmanager
def storage(kind: str, folder: Path) -> Iterator[dict[str, str]]:
    if kind == "folder":
        yield {"archive.path": str(folder / "archive")}
        return
    if not os.environ.get("MOLDAU_TEST_CONNECT"):
        pytest.skip("part of make test-connect")
    if kind == "hdfs":
        with hdfs() as server:
            yield {"hdfs.url": f"{hdfs_url(server)}/archive"}
        return
    with s3_server() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("PUT", "/archive")
        assert connection.getresponse().status == 200
        connection.close()
        yield bucket(server, "archive")


def seen(broker: Broker, topic: str, partition: int) -> list[object]:
    return [
        (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in broker.records(topic, partition)
    ]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["folder", "s3", "hdfs"])
def test_a_topic_comes_back_as_it_was(kind: str, broker: Broker, tmp_path: Path) -> None:
    old, new = f"sensors-{kind}", f"restored-{kind}"
    for topic in (old, new):
        broker.create_topic(topic, partitions=2)
    for number in range(40):
        broker.produce(
            old,
            b"reading %d" % number,
            key=b"sensor-%d" % (number % 7),
            headers=[("unit", b"C")],
            partition=number % 2,
            timestamp_ms=1_700_000_000_000 + number,
        )
    with storage(kind, tmp_path) as place, running(broker, tmp_path) as worker:
        sink = {
            "connector.class": "ArchiveSinkConnector",
            "topics": old,
            "flush.size": "7",
            "rotate.interval.ms": "300",
            "compact.flushes": "2",
            **place,
            **BYTES,
        }
        worker.call("POST", "/connectors", {"name": f"store-{kind}", "config": sink})

        def stored() -> bool:
            offsets = worker.call("GET", f"/connectors/store-{kind}/offsets")["offsets"]
            return sorted(each["offset"]["kafka_offset"] for each in offsets) == [20, 20]

        wait_until(stored, lambda: worker.task(f"store-{kind}"))
        wanted = {partition: seen(broker, old, partition) for partition in (0, 1)}
        worker.call("DELETE", f"/connectors/store-{kind}")
        source = {"connector.class": "ArchiveSourceConnector", "topic.format": new, **place, **BYTES}
        worker.call("POST", "/connectors", {"name": f"restore-{kind}", "config": source})
        wait_until(lambda: len(broker.records(new)) >= 40, lambda: worker.task(f"restore-{kind}"))
        worker.call("DELETE", f"/connectors/restore-{kind}")
    for partition in (0, 1):
        assert seen(broker, new, partition) == wanted[partition]
