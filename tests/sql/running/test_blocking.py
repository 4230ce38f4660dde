"""Statements without asyncio."""

import pytest

import moldau.sql
from moldau.sql.errors import SqlError
from moldau.sql.running.blocking import sql
from moldau.testing import Broker


@pytest.mark.slow
def test_rows_of_the_last_statement() -> None:
    with Broker() as broker:
        servers = broker.bootstrap_servers
        made = sql(
            "CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1)",
            servers,
        )
        assert made == [{"message": "Stream S created"}]
        rows = sql("INSERT INTO s VALUES ('a', 1), ('b', 2); SELECT * FROM s", servers)
        assert rows == [{"K": "a", "V": 1}, {"K": "b", "V": 2}]
        assert moldau.sql("SELECT v FROM s WHERE k = 'b'", servers) == [{"V": 2}]  # type: ignore[operator]
        earliest = "SET 'auto.offset.reset' = 'earliest'; SELECT k FROM s EMIT CHANGES LIMIT 1"
        assert sql(earliest, servers) == [{"K": "a"}]
        with pytest.raises(SqlError, match="need a LIMIT"):
            sql("SELECT k FROM s EMIT CHANGES", servers)
