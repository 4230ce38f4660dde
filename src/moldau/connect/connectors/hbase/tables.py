"""What is known of the tables, and what the sink may make of them.

Invariant: a table or a family is made only if the settings allow it. Cells that their table would forget at
once are never written.
"""

from collections.abc import Set as AbstractSet

from moldau.connect.connectors.hbase.gateway import Gateway
from moldau.connect.connectors.hbase.rows import Row
from moldau.connect.errors import ConnectException, DataException, RetriableException


class Tables:
    def __init__(
        self, gateway: Gateway, *, makes_tables: bool, makes_families: bool, by_offset: bool
    ) -> None:
        self._gateway = gateway
        self._makes_tables = makes_tables
        self._makes_families = makes_families
        self._by_offset = by_offset
        self._known: dict[str, dict[str, bool]] = {}
        #: Tables that were looked at for this batch.
        self._fresh: set[str] = set()

    def begin_batch(self) -> None:
        self._fresh.clear()

    def fit(self, row: Row, default_family: str) -> None:
        """Makes sure that the table has what a row needs; DataException for a row that it has no family
        for."""
        known = self._known.get(row.table)
        if known is None:
            known = self._look(row.table)
        if known is None:
            known = self._make(row.table, row.families | {default_family})
        missing = row.families - known.keys()
        if missing and row.table not in self._fresh:
            known = self._look(row.table) or {}
            missing = row.families - known.keys()
        if missing:
            known = self._add(row.table, missing)
        if self._by_offset:
            mortal = sorted(name for name in row.families if not known[name])
            if mortal:
                raise ConnectException(
                    f"The family {mortal[0]} of {row.table} has a TTL, by which an offset is a time long "
                    "gone. Next: write.time=timestamp"
                )

    def families(self, table: str) -> AbstractSet[str]:
        """As they are now: a delete has to name every one."""
        known = self._known.get(table) if table in self._fresh else self._look(table)
        if known is None:
            raise RetriableException(f"The table {table} is gone")
        return known.keys()

    def _look(self, table: str) -> dict[str, bool] | None:
        found = self._gateway.families(table)
        if found is None:
            self._known.pop(table, None)
        else:
            self._known[table] = found
            self._fresh.add(table)
        return found

    def _make(self, table: str, families: AbstractSet[str]) -> dict[str, bool]:
        if not self._makes_tables:
            raise ConnectException(
                f"The table {table} is missing. Next: make it, or set auto.create.tables=true"
            )
        return self._added(table, families)

    def _add(self, table: str, missing: AbstractSet[str]) -> dict[str, bool]:
        if not self._makes_families:
            # One odd record must not stop the others: it becomes a dead letter where they are tolerated.
            raise DataException(
                f"The table {table} has no column family {', '.join(sorted(missing))}. "
                "Next: add it, or set auto.create.column.families=true"
            )
        return self._added(table, missing)

    def _added(self, table: str, families: AbstractSet[str]) -> dict[str, bool]:
        self._gateway.add_families(table, families)
        found = self._look(table)
        if found is None or not families <= found.keys():
            raise RetriableException(f"The table {table} is not as it was made yet")
        return found
