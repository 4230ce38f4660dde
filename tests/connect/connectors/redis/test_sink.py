"""Keys and values in a real Redis."""

from collections.abc import Iterator

import pytest

from moldau.connect.connectors.redis.sink import RedisSink
from moldau.connect.errors import ConfigException, DataException, RetriableException
from moldau.connect.records import SinkRecord
from moldau.testing.connect import write
from tests.connect.servers import Server, redis_server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with redis_server() as server:
        yield server


def record(offset: int, key: object, value: object) -> SinkRecord:
    return SinkRecord(topic="t", partition=0, offset=offset, key=key, value=value)


@pytest.mark.slow
def test_set_and_delete(server: Server) -> None:
    import redis

    given = {"redis.hosts": f"127.0.0.1:{server.port}", "redis.key.prefix": "${topic}:"}
    rows = [record(0, "a", "1"), record(1, b"\xff", {"x": 1}), record(2, "a", "2"), record(3, "b", 5)]
    for _ in range(2):
        write(RedisSink, given, [*rows, record(4, "b", None)])
    with redis.Redis(port=server.port) as client:
        assert {key: client.get(key) for key in client.scan_iter()} == {b"t:a": b"2", b"t:\xff": b'{"x":1}'}
    with pytest.raises(DataException, match="has no key"):
        write(RedisSink, given, [record(0, None, "x")])


@pytest.mark.slow
def test_a_server_that_is_away() -> None:
    with pytest.raises(RetriableException, match="cannot be reached"):
        write(RedisSink, {"redis.hosts": "127.0.0.1:1"}, [record(0, "a", "1")])
    with pytest.raises(ConfigException, match="host:port"):
        write(RedisSink, {"redis.hosts": "nowhere"}, [])
