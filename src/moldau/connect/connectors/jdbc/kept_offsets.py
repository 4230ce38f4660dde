"""Offsets of a sink in a table of the database that it writes to.

Invariant: an offset changes in the transaction that writes the rows before it, and never goes back; two tasks
that have the same partition for a moment wait for each other at its row.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moldau.base.names import TopicPartition
from moldau.connect.connectors.jdbc.dialect import Dialect


class KeptOffsets:
    def __init__(self, dialect: Dialect, table: str, connector: str) -> None:
        self._dialect = dialect
        self._table = dialect.table(dialect.split(table))
        self._connector = connector
        self._made = False

    def read(self, cursor: Any, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        if not self._made:
            self._make(cursor)
        self._dialect.begin_writing(cursor)
        mark = self._dialect.mark
        found: dict[TopicPartition, int] = {}
        for at in sorted(partitions):
            cursor.execute(
                self._dialect.locked(
                    f"SELECT next_offset FROM {self._table} "
                    f"WHERE connector = {mark} AND topic = {mark} AND kafka_partition = {mark}"
                ),
                (self._connector, at.topic, at.partition),
            )
            row = cursor.fetchone()
            if row is not None:
                found[at] = int(row[0])
        return found

    def _make(self, cursor: Any) -> None:
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} (connector VARCHAR(200) NOT NULL, "
            "topic VARCHAR(249) NOT NULL, kafka_partition INT NOT NULL, next_offset BIGINT NOT NULL, "
            "PRIMARY KEY (connector, topic, kafka_partition))"
        )
        self._dialect.connection.commit()
        self._made = True

    def write(
        self, cursor: Any, ends: Mapping[TopicPartition, int], known: Mapping[TopicPartition, int]
    ) -> None:
        mark = self._dialect.mark
        for at, end in sorted(ends.items()):
            if at in known:
                text = (
                    f"UPDATE {self._table} SET next_offset = {mark} "
                    f"WHERE connector = {mark} AND topic = {mark} AND kafka_partition = {mark}"
                )
                cursor.execute(text, (end, self._connector, at.topic, at.partition))
            else:
                # Two that insert at once: one of them fails, and finds the row when it tries again.
                text = f"INSERT INTO {self._table} VALUES ({mark}, {mark}, {mark}, {mark})"
                cursor.execute(text, (self._connector, at.topic, at.partition, end))

    def forget(self, cursor: Any, partitions: Sequence[TopicPartition] | None) -> None:
        self._make(cursor)
        mark = self._dialect.mark
        if partitions is None:
            cursor.execute(f"DELETE FROM {self._table} WHERE connector = {mark}", (self._connector,))
            return
        for at in partitions:
            cursor.execute(
                f"DELETE FROM {self._table} "
                f"WHERE connector = {mark} AND topic = {mark} AND kafka_partition = {mark}",
                (self._connector, at.topic, at.partition),
            )
