"""Sources that most tests of SQL use, and a way to run a SELECT over records without a broker."""

import json
from typing import Any

from moldau.client.consumer.fetched import ConsumerRecord
from moldau.protocol.records import TimestampType
from moldau.sql.catalogue import Catalogue
from moldau.sql.parser import parse_query
from moldau.sql.planner import plan_query
from moldau.sql.running.looking import run_over
from moldau.streams import TestDriver

STATEMENTS = [
    "CREATE STREAM clicks (user STRING KEY, page STRING, ms BIGINT, info STRUCT<a INT, b ARRAY<STRING>>)"
    " WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON')",
    "CREATE STREAM views (user STRING KEY, item STRING) WITH (KAFKA_TOPIC='views', VALUE_FORMAT='JSON')",
    "CREATE TABLE users (id STRING PRIMARY KEY, name STRING, level INT)"
    " WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON')",
    "CREATE TABLE levels (level INT PRIMARY KEY, title STRING)"
    " WITH (KAFKA_TOPIC='levels', VALUE_FORMAT='JSON')",
]


def record(topic: str, key: Any, value: Any, timestamp: int = 0, offset: int = 0) -> ConsumerRecord:
    key_bytes = key.to_bytes(4, "big") if isinstance(key, int) else None if key is None else key.encode()
    data = None if value is None else json.dumps(value).encode()
    return ConsumerRecord(topic, 0, offset, timestamp, TimestampType.CREATE_TIME, key_bytes, data, (), 0)


class Sql:
    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue

    def batch(self, query: str, records: list[ConsumerRecord]) -> list[dict[str, Any]]:
        """The rows of a SELECT over all records."""
        return run_over(plan_query(parse_query(query), self.catalogue), records)

    def updates(self, query: str, records: list[ConsumerRecord]) -> list[Any]:
        """Every row that comes out, in order; None for a row that goes away."""
        plan = plan_query(parse_query(query), self.catalogue)
        with TestDriver(plan.topology) as driver:
            return [
                output.value
                for each in records
                for output in driver.pipe_raw_input(each.topic, each.key, each.value, each.timestamp)
            ]

    def columns(self, query: str) -> list[str]:
        plan = plan_query(parse_query(query), self.catalogue)
        return [f"{each.name} {each.type}" for each in plan.columns]
