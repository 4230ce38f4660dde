"""The snapshot of tables in ranges that several processes read at the same time.

In mode ``bulk`` every round is a snapshot; in the other modes the first reading of a table is one, and the
plain task goes on behind the last row that was there when the snapshot was planned.

Invariant: that last row is looked up before any range is read, so that a row which comes or changes meanwhile
has its place behind it and is read later. A table whose place is kept is never read here again, but for
``bulk``.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from moldau.connect.config.definition import ConfigDef
from moldau.connect.connector import Place, Snapshot, SnapshotPart, SnapshotTask, SourceTaskContext
from moldau.connect.connectors.jdbc.dialect import Column, Dialect, address_of, dialect_of
from moldau.connect.connectors.jdbc.queries import Condition, Mark, Reading
from moldau.connect.connectors.jdbc.ranges import KeyRange, Plan, count_for, key_of
from moldau.connect.connectors.jdbc.tables import Table, Tables, in_order
from moldau.connect.records import SourceRecord

log = logging.getLogger("moldau.connect.worker")

#: In the partition of a table's place: which range, or the plan.
SNAPSHOT = "snapshot"
PLAN = "plan"


@dataclass(frozen=True, slots=True)
class RangeOfTable:
    """What one process reads."""

    table: Table
    column: str
    keys: KeyRange
    since: Mark
    end: Mark


class JdbcSnapshotTask(SnapshotTask):
    def __init__(self, config: ConfigDef) -> None:
        self._config = config

    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        self._settings = self._config.parse(settings)
        self._context = context
        self._dialect: Dialect = dialect_of(address_of(self._settings))
        self._tables = Tables(self._settings, self._dialect)
        self._bulk = self._settings["mode"] == "bulk"
        self._known: dict[str, Table] = {}
        self._due_ms: dict[str, int] = {}
        self._look_at_ms = 0
        #: Tables of which the log has said that they are not cut.
        self._whole: set[str] = set()

    def stop(self) -> None:
        if (dialect := getattr(self, "_dialect", None)) is not None:
            dialect.close()

    @property
    def over(self) -> bool:
        return not self._bulk or not self._is_cut()

    def _is_cut(self) -> bool:
        return not self._settings["query"] and not self._settings["query.suffix"]

    # --- what is to be read ---------------------------------------------------------------------------

    def next(self) -> Snapshot | None:
        if not self._is_cut():
            self._say_whole("the query", "queries, and tables with a suffix of queries, are not cut")
            return None
        if not self._bulk and (self._settings["timestamp.initial"] or 0) < 0:
            return None  # what there is now is not wanted, and from now on the plain task reads
        now = self._context.now_ms()
        if now >= self._look_at_ms:
            self._known = self._tables.found(complete=not self._known)
            self._look_at_ms = now + self._settings["table.poll.interval.ms"]
        for name, table in sorted(self._known.items(), key=lambda each: self._due_ms.get(each[0], 0)):
            if self._due_ms.get(name, 0) <= now and (found := self._snapshot_of(name, table)) is not None:
                return found
        return None

    def done(self, snapshot: Snapshot) -> None:
        if self._bulk and snapshot.reached:
            self._due_ms[snapshot.name] = self._context.now_ms() + self._settings["poll.interval.ms"]

    def _snapshot_of(self, name: str, table: Table) -> Snapshot | None:
        kept = self._context.offset_of({**table.partition, SNAPSHOT: PLAN})
        plan = None if kept is None else Plan.of(kept)
        if not self._bulk and self._context.offset_of(table.partition) is not None:
            # It was finished, or somebody says where to go on; what is left of the plan has no meaning.
            return None if plan is None else Snapshot(name, (), cleared=_places_of(table, plan))
        if plan is not None and plan.mode != self._settings["mode"]:
            return Snapshot(name, (), cleared=_places_of(table, plan))
        made = plan or self._planned(name, table)
        if made is None:
            return None
        if plan is None:
            made = replace(made, began=max(made.began, self._after_kept(table, made)))
        return self._snapshot(name, table, made, is_new=plan is None)

    def _after_kept(self, table: Table, plan: Plan) -> int:
        """A time behind that of a plan which has left ranges, be it made in this very millisecond."""
        kept = map(self._context.offset_of, _places_of(table, plan))
        times = (place.get("began") for place in kept if place is not None)
        return max((time + 1 for time in times if isinstance(time, int)), default=0)

    def _snapshot(self, name: str, table: Table, plan: Plan, *, is_new: bool) -> Snapshot:
        mode = plan.mode
        end = plan.end.place("incrementing" in mode, "timestamp" in mode)
        return Snapshot(
            name,
            tuple(self._parts(table, plan)),
            (({**table.partition, SNAPSHOT: PLAN}, plan.place()),) if is_new else (),
            ((table.partition, end),),
            _places_of(table, plan),
        )

    def _parts(self, table: Table, plan: Plan) -> Iterator[SnapshotPart]:
        for number, keys in enumerate(plan.ranges()):
            partition = _range_partition(table, number)
            kept = self._context.offset_of(partition)
            if kept is None or kept.get("began") != plan.began:
                work = RangeOfTable(table, plan.column, keys, plan.since, plan.end)
                yield SnapshotPart(work, partition, {"began": plan.began})

    # --- planning -------------------------------------------------------------------------------------

    def _planned(self, name: str, table: Table) -> Plan | None:
        """None for a table that the plain task reads: it is empty, or cannot be cut."""
        assert table.name is not None
        now = self._context.now_ms()
        since = self._tables.start_mark(None, now)
        with self._dialect.transaction() as cursor:
            columns = self._dialect.columns(cursor, table.name)
            reading = self._tables.reading(columns, table)
            end, limits = Mark(), list[Condition]()
            if not self._bulk:
                last = self._last(cursor, table, reading, columns, since)
                if last is None:
                    return None
                end = last
                limits = [*reading.after(self._dialect, since), *reading.up_to(self._dialect, end)]
            key = key_of(reading, columns)
            bounds = None if key is None else self._bounds(cursor, table, key, limits)
        if key is None or bounds is None:
            self._say_whole(name, "it has no key that is one column of whole numbers")
            return Plan(now, self._settings["mode"], "", 0, 0, 1) if self._bulk else None
        count = count_for(*bounds, self._settings["snapshot.partitions"])
        nulls = key.nullable and reading.incrementing is None
        return Plan(now, self._settings["mode"], key.name, *bounds, count, nulls, since, end)

    def _last(
        self, cursor: Any, table: Table, reading: Reading, columns: list[Column], since: Mark
    ) -> Mark | None:
        """The mark behind the last row that there is now."""
        dialect = self._dialect
        limits = [
            *reading.before(dialect, self._tables.until_us(cursor)),
            *reading.after(dialect, since),
        ]
        text, parameters = reading.select(dialect, table.source, limits, "LIMIT 1", last_first=True)
        cursor.execute(text, tuple(parameters))
        row = cursor.fetchone()
        return None if row is None else reading.mark_of(in_order(columns, cursor), row)

    def _bounds(
        self, cursor: Any, table: Table, key: Column, limits: list[Condition]
    ) -> tuple[int, int] | None:
        """The lowest and the highest key; None where they are no whole numbers, which SQLite allows."""
        assert table.name is not None
        name = self._dialect.quoted(key.name)
        source = f"SELECT MIN({name}), MAX({name}) FROM {self._dialect.table(table.name)}"
        text, parameters = Reading().select(self._dialect, source, limits)
        cursor.execute(text, tuple(parameters))
        first, last = cursor.fetchone()
        if first is None:
            return 0, 0
        try:
            bounds = int(first), int(last)
        except (TypeError, ValueError):
            return None
        return bounds if bounds == (first, last) else None

    def _say_whole(self, name: str, reason: str) -> None:
        if name not in self._whole:
            self._whole.add(name)
            log.warning("connector %s: %s is read by one task: %s", self._context.connector, name, reason)

    # --- reading --------------------------------------------------------------------------------------

    def read(self, work: object) -> Iterator[SourceRecord]:
        assert isinstance(work, RangeOfTable)
        dialect = self._dialect

        def limits(reading: Reading, cursor: Any) -> list[Condition]:
            return [
                *work.keys.conditions(dialect, work.column),
                *reading.after(dialect, work.since),
                *reading.up_to(dialect, work.end),
            ]

        with dialect.translated(), closing(self._tables.rows(work.table, work.since, limits)) as rows:
            for record, _ in rows:
                yield record


def _range_partition(table: Table, number: int) -> Place:
    return {**table.partition, SNAPSHOT: str(number)}


def _places_of(table: Table, plan: Plan) -> tuple[Place, ...]:
    ranges = [_range_partition(table, number) for number in range(len(plan.ranges()))]
    return ({**table.partition, SNAPSHOT: PLAN}, *ranges)
