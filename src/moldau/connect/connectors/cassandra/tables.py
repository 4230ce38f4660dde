"""The connection to a cluster, and statements for its tables: prepared once; tables are made if that is asked
for.

Invariant: names that come from records are always quoted; an error that may pass by itself is a
RetriableException, and none tells the password.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from moldau.connect.connectors.cassandra.mapping import TTL_OF_TABLE, Row, Target
from moldau.connect.connectors.cassandra.values import type_of, written
from moldau.connect.connectors.libraries import library
from moldau.connect.data.schema import Schema
from moldau.connect.errors import ConnectException, DataException, RetriableException

EXTRA = "connect-cassandra"
_PASSING = (
    "ConnectionException",
    "ConnectionShutdown",
    "CoordinationFailure",
    "IsBootstrappingErrorMessage",
    "NoConnectionsAvailable",
    "OperationTimedOut",
    "OverloadedErrorMessage",
    "ServerError",
    "Timeout",
    "TruncateError",
    "Unavailable",
)
#: How long a server that was away is left alone at most.
_LONGEST_PAUSE_SECONDS = 30.0
#: Records without a schema may have many different sets of fields.
_MAX_STATEMENTS = 500


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def open_cluster(settings: Mapping[str, Any]) -> Any:
    driver = library("cassandra.cluster", EXTRA)
    policies = library("cassandra.policies", EXTRA)
    auth = library("cassandra.auth", EXTRA)
    consistency = library("cassandra", EXTRA).ConsistencyLevel.name_to_value[settings["consistencyLevel"]]
    near = (
        policies.DCAwareRoundRobinPolicy(settings["loadBalancing.localDc"])
        if settings["loadBalancing.localDc"]
        else policies.RoundRobinPolicy()
    )
    profile = driver.ExecutionProfile(
        load_balancing_policy=policies.TokenAwarePolicy(near),
        consistency_level=consistency,
        request_timeout=settings["queryExecutionTimeout"],
    )
    password = settings["auth.password"]
    login = auth.PlainTextAuthProvider(settings["auth.username"], "" if password is None else password.secret)
    return driver.Cluster(
        settings["contactPoints"],
        port=settings["port"],
        auth_provider=login if settings["auth.username"] else None,
        execution_profiles={driver.EXEC_PROFILE_DEFAULT: profile},
        reconnection_policy=policies.ExponentialReconnectionPolicy(1.0, _LONGEST_PAUSE_SECONDS),
        connect_timeout=20,
        control_connection_timeout=20,
    )


def translate(error: Exception) -> Exception:
    """An error of the driver as one that a worker knows."""
    kinds = {each.__name__ for each in type(error).__mro__}
    text = f"cassandra says: {type(error).__name__} {str(error)[:500]}"
    if "NoHostAvailable" in kinds:
        reasons = list(getattr(error, "errors", {}).values())
        refused = reasons and all(type(each).__name__ == "AuthenticationFailed" for each in reasons)
        return ConnectException(text) if refused else RetriableException(text)
    passes = not kinds.isdisjoint(_PASSING) or isinstance(error, OSError)
    return (RetriableException if passes else ConnectException)(text)


@dataclass(frozen=True, slots=True)
class Statement:
    """A prepared one, and the columns that it binds with their types: first those of the primary key."""

    prepared: Any
    columns: tuple[tuple[str, str], ...]
    keys: int


class Tables:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._creates: bool = settings["auto.create"]
        self._evolves: bool = settings["auto.evolve"]
        self._cluster: Any = None
        self._settings = settings
        self._session: Any = None
        self._statements: dict[tuple[str, str, tuple[str, ...], bool], Statement] = {}
        self._unknown: dict[tuple[str, str], set[str]] = {}
        driver, cluster = library("cassandra", EXTRA), library("cassandra.cluster", EXTRA)
        self._errors = (driver.DriverException, cluster.NoHostAvailable, OSError)
        self._unset: Any = library("cassandra.query", EXTRA).UNSET_VALUE

    @property
    def session(self) -> Any:
        if self._session is None:
            try:
                self._cluster = open_cluster(self._settings)
                self._session = self._cluster.connect()
            except Exception as error:
                self.close()
                raise translate(error) from None
        return self._session

    def close(self) -> None:
        cluster, self._cluster, self._session = self._cluster, None, None
        self._statements.clear()
        self._unknown.clear()
        if cluster is not None:
            cluster.shutdown()

    def bound(self, target: Target, row: Row, timestamp: int) -> Any:
        """The statement that writes or deletes a row, with its values."""
        statement = self._statement(target, row)
        nothing = self._unset if target.null_to_unset else None
        values: list[Any] = []
        for place, (name, kind) in enumerate(statement.columns):
            found = written(kind, row.columns.get(name, (None, None))[1])
            if found is None and place < statement.keys:
                raise DataException(f"The record has nothing for {name}, a part of the primary key")
            values.append(nothing if found is None else found)
        if row.deleted:
            values.insert(0, timestamp)
        else:
            ttl = target.ttl_seconds
            values += [timestamp, self._unset if ttl == TTL_OF_TABLE else ttl]
        try:
            return statement.prepared.bind(values)
        except (TypeError, ValueError, AttributeError, OverflowError):
            # The driver's words would tell the value.
            names = ", ".join(name for name, _ in statement.columns)
            raise DataException(f"The driver cannot write the row: one of the columns {names}") from None

    # --- statements and tables ------------------------------------------------------------------------

    def _statement(self, target: Target, row: Row) -> Statement:
        row = self._without_unknown(target, row)
        place = target.keyspace, target.table, tuple(row.columns), row.deleted
        found = self._statements.get(place)
        if found is None:
            try:
                table = self._table(target, row)
                if not row.deleted and any(name not in table.columns for name in row.columns):
                    self._learn(target, table, row)
                    return self._statement(target, row)
                found = self._prepared(target, table, row)
            except self._errors as error:
                raise translate(error) from None
            if len(self._statements) >= _MAX_STATEMENTS:
                self._statements.clear()
            self._statements[place] = found
        return found

    def _learn(self, target: Target, table: Any, row: Row) -> None:
        """Remembers columns that cannot be made yet: a null without a schema has no type."""
        place = target.keyspace, target.table
        if place not in self._unknown and len(self._unknown) >= _MAX_STATEMENTS:
            self._unknown.clear()
        known = self._unknown.setdefault(place, set())
        if len(known) >= _MAX_STATEMENTS:
            known.clear()
        known.update(name for name in row.columns if name not in table.columns)

    def _without_unknown(self, target: Target, row: Row) -> Row:
        known = self._unknown.get((target.keyspace, target.table))
        if not known:
            return row
        kept = {name: each for name, each in row.columns.items() if name not in known or not _untyped(each)}
        return replace(row, columns=kept)

    def _prepared(self, target: Target, table: Any, row: Row) -> Statement:
        keys = [column.name for column in table.primary_key]
        names = keys if row.deleted else [*keys, *(name for name in row.columns if name not in keys)]
        text = (_delete if row.deleted else _insert)(_place(target), names)
        columns = tuple((name, table.columns[name].cql_type) for name in names)
        return Statement(self.session.prepare(text), columns, len(keys))

    def _table(self, target: Target, row: Row) -> Any:
        """The table as the cluster describes it, with all columns of the row."""
        found = self._described(target)
        if found is None:
            self._create(target, row)
            found = self._described(target)
        if found is None:
            raise RetriableException(f"The table {_place(target)} is not seen yet")
        wanted = {} if row.deleted else row.columns
        missing = [name for name, each in wanted.items() if name not in found.columns and not _untyped(each)]
        if missing:
            self._evolve(target, row, missing)
            found = self._described(target)
        return found

    def _described(self, target: Target) -> Any:
        keyspaces = self.session.cluster.metadata.keyspaces
        if target.keyspace not in keyspaces:
            self.session.cluster.refresh_schema_metadata()
        if target.keyspace not in keyspaces:
            raise ConnectException(f"The keyspace {target.keyspace} is missing. Next: CREATE KEYSPACE")
        self.session.cluster.refresh_table_metadata(target.keyspace, target.table)
        return keyspaces[target.keyspace].tables.get(target.table)

    def _create(self, target: Target, row: Row) -> None:
        if not self._creates:
            raise ConnectException(
                f"The table {_place(target)} is missing. Next: make it, or set auto.create=true"
            )
        if not row.keys:
            raise DataException("A table needs a primary key, and no column comes from the record's key")
        if any(row.columns[name][1] is None for name in row.keys):
            raise DataException("A part of the record's key is null: it cannot be a primary key")
        definitions = [
            f"{quoted(name)} {type_of(*each)}" for name, each in row.columns.items() if not _untyped(each)
        ]
        keys = ", ".join(map(quoted, row.keys))
        self.session.execute(
            f"CREATE TABLE IF NOT EXISTS {_place(target)} ({', '.join(definitions)}, PRIMARY KEY ({keys}))"
        )

    def _evolve(self, target: Target, row: Row, missing: list[str]) -> None:
        if not self._evolves:
            # One odd record must not stop the others: it becomes a dead letter where they are tolerated.
            raise DataException(
                f"The table {_place(target)} has no column {', '.join(missing)}. "
                "Next: add it, or set auto.evolve=true"
            )
        for name in missing:
            # Another task may have been first, and the server says so in different words by version.
            kind = type_of(*row.columns[name])
            try:
                self.session.execute(f"ALTER TABLE {_place(target)} ADD {quoted(name)} {kind}")
            except self._errors:
                there = self._described(target)
                if there is None or name not in there.columns:
                    raise


def _untyped(column: tuple[Schema | None, object]) -> bool:
    return column == (None, None)


def _place(target: Target) -> str:
    return f"{quoted(target.keyspace)}.{quoted(target.table)}"


def _insert(place: str, names: list[str]) -> str:
    columns, marks = ", ".join(map(quoted, names)), ", ".join("?" * len(names))
    return f"INSERT INTO {place} ({columns}) VALUES ({marks}) USING TIMESTAMP ? AND TTL ?"


def _delete(place: str, names: list[str]) -> str:
    return (
        f"DELETE FROM {place} USING TIMESTAMP ? WHERE {' AND '.join(f'{quoted(name)} = ?' for name in names)}"
    )
