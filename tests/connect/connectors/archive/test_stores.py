"""An archive in a bucket: there and back, by a server that speaks S3; in ``make test-connect``."""

import os
from collections.abc import Iterator

import pytest

from moldau.connect.connectors.archive.sink import ArchiveSink
from moldau.connect.connectors.archive.source import ArchiveSource
from moldau.connect.errors import ConnectException, RetriableException
from moldau.testing.connect import read, write
from tests.connect.connectors.archive.test_sink import record
from tests.connect.servers import Server, s3_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("MOLDAU_TEST_CONNECT"), reason="part of make test-connect"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with s3_server() as server:
        yield server


def bucket(server: Server, name: str) -> dict[str, str]:
    return {
        "s3.bucket.name": name,
        "store.url": f"http://127.0.0.1:{server.port}",
        "s3.region": "us-east-1",
        "aws.access.key.id": "ann",
        "aws.secret.access.key": "hush-hush",
    }


def test_there_and_back(server: Server) -> None:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("PUT", "/archive")
    assert connection.getresponse().status == 200
    connection.close()
    settings = bucket(server, "archive")
    for _ in range(2):  # the second time everything is there already
        write(ArchiveSink, {**settings, "flush.size": "4"}, [record(n) for n in range(8)])
    found = read(ArchiveSource, settings, count=8, polls=20)
    assert [each.key for each in found.records] == [f"k{n}" for n in range(8)]


def test_a_bucket_that_is_not_there(server: Server) -> None:
    settings = bucket(server, "nowhere")
    with pytest.raises((ConnectException, RetriableException)) as caught:
        write(ArchiveSink, {**settings, "flush.size": "1"}, [record(0)])
    assert "hush-hush" not in str(caught.value)
