"""``RemoteSession`` gives what a session in this process gives."""

import asyncio
from typing import Any

import pytest

from moldau.sql.errors import SqlError
from moldau.sql.running.session import Flow, Message, Table
from moldau.sql.server.client import RemoteSession, result_of
from tests.sql.sql_servers import RunningServer

CLICKS = (
    "CREATE STREAM clicks (user STRING KEY, page STRING, tags ARRAY<STRING>, price DECIMAL(6, 2))"
    " WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON', PARTITIONS=1);"
)


def results(session: RemoteSession, text: str) -> list[Any]:
    async def work() -> list[Any]:
        found: list[Any] = []
        async for each in session.run(text):
            if isinstance(each, Flow):
                found.append((each.columns, [row async for row in each.rows if row is not None]))
            else:
                found.append(each)
        return found

    return asyncio.run(work())


@pytest.mark.slow
def test_a_session_over_http(server: RunningServer) -> None:
    session = RemoteSession(server.url)
    assert results(session, CLICKS) == [Message("Stream CLICKS created")]
    assert results(session, "INSERT INTO clicks VALUES ('ann', '/a', ARRAY['x'], 1.5);") == []
    (rows,) = results(session, "SELECT * FROM clicks")
    assert rows == Table(("USER", "PAGE", "TAGS", "PRICE"), (("ann", "/a", ["x"], 1.5),))
    (described,) = results(session, "DESCRIBE clicks")
    assert described.rows[2:] == (("TAGS", "ARRAY<STRING>"), ("PRICE", "DECIMAL(6, 2)"))
    (listed,) = results(session, "SHOW STREAMS")
    assert listed.rows == (("CLICKS", "clicks", "KAFKA", "JSON", False),)
    assert results(session, "SET 'auto.offset.reset' = 'earliest'") == [
        Message("auto.offset.reset is earliest now")
    ]
    assert results(session, "SELECT user FROM clicks EMIT CHANGES LIMIT 1") == [(("USER",), [("ann",)])]
    ((_, printed),) = results(session, "PRINT 'clicks' FROM BEGINNING LIMIT 1")
    assert "key: ann" in printed[0][0]
    with pytest.raises(SqlError, match="no column NOPE"):
        results(session, "SELECT nope FROM clicks")


@pytest.mark.parametrize("url", ["ftp://somewhere", "http://"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(SqlError, match="no address"):
        RemoteSession(url)


def test_nobody_listens() -> None:
    with pytest.raises(SqlError, match="does not answer"):
        results(RemoteSession("http://127.0.0.1:1"), "SHOW STREAMS")


def test_entities_that_are_not_known_are_shown_as_they_are() -> None:
    assert result_of({"@type": "warning_entity", "message": "so"}) == Message("so")
    assert result_of({"@type": "other", "x": 1}) == Message('{"@type": "other", "x": 1}')
