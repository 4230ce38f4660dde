"""IcebergSink: records as rows of Iceberg tables, by pyiceberg.

Offsets are properties of the table, one for each connector, topic and partition, set in the transaction that
adds the rows. A commit is bound to the snapshot that was current when the offsets were read.

Invariant: see ``tables/sink.py``.
"""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from moldau.base.names import TopicPartition
from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.connector import SinkConnector, SinkTask
from moldau.connect.connectors.libraries import library
from moldau.connect.connectors.tables.sink import GONE, WRITING, LakeSinkTask, LakeTable, writing_problems
from moldau.connect.errors import ConnectException, RetriableException

_EXTRA = "connect-iceberg"
_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM
_CATALOGUE = "iceberg.catalog."
#: Others, such as those that name classes to load, are not for configurations.
_ALLOWED = {"type", "uri", "warehouse", "credential", "token", "scope"}
_ALLOWED |= {"s3.endpoint", "s3.region", "s3.access-key-id", "s3.secret-access-key"}
_TYPES = ("rest", "sql")
_NAME = re.compile(r"[\w${}.-]+")


class IcebergSink(SinkConnector):
    class_name = "org.apache.iceberg.connect.IcebergSinkConnector"
    task_class_name = "org.apache.iceberg.connect.IcebergSinkTask"
    synonyms = ("io.tabular.iceberg.connect.IcebergSinkConnector",)
    holds_back = True
    config = ConfigDef(
        ConfigKey(
            "iceberg.tables",
            ConfigType.STRING,
            importance=_HIGH,
            doc="The table, NAMESPACE.NAME; ${topic} stands for the topic.",
        ),
        ConfigKey("iceberg.catalog.type", ConfigType.STRING, "rest", _HIGH, "rest, or sql with SQLite."),
        ConfigKey("iceberg.catalog.uri", ConfigType.STRING, importance=_HIGH, doc="Where the catalogue is."),
        ConfigKey("iceberg.catalog.warehouse", ConfigType.STRING, None, _HIGH, "Where tables are made."),
        ConfigKey("iceberg.catalog.credential", ConfigType.PASSWORD, None, _MEDIUM, "A login."),
        ConfigKey("iceberg.catalog.token", ConfigType.PASSWORD, None, _MEDIUM, "A token."),
        ConfigKey("iceberg.catalog.s3.secret-access-key", ConfigType.PASSWORD, None, _MEDIUM, "A key."),
        *WRITING,
    )

    def make_task(self) -> SinkTask:
        return IcebergSinkTask()

    @classmethod
    def paths(cls, given: Mapping[str, str]) -> list[str]:
        uri, warehouse = given.get("iceberg.catalog.uri", ""), given.get("iceberg.catalog.warehouse", "")
        found = [uri.removeprefix("sqlite:///")] if uri.startswith("sqlite:///") else []
        if warehouse and ("://" not in warehouse or warehouse.startswith("file://")):
            found.append(warehouse.removeprefix("file://"))
        return found

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        named = (given.get("iceberg.catalog.uri", ""), given.get("iceberg.catalog.s3.endpoint", ""))
        return [host for url in named if (host := urlsplit(url).hostname)]

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        problems = writing_problems(given)
        for name in given:
            if name.startswith(_CATALOGUE) and name.removeprefix(_CATALOGUE) not in _ALLOWED:
                problems.setdefault("iceberg.catalog.type", []).append(
                    f"The setting {name} is not allowed here"
                )
        kind, uri = given.get("iceberg.catalog.type", "rest"), given.get("iceberg.catalog.uri", "")
        if kind not in _TYPES:
            problems["iceberg.catalog.type"] = ["Known are rest and sql"]
        elif not uri.startswith("sqlite:///" if kind == "sql" else ("http://", "https://")):
            problems["iceberg.catalog.uri"] = ["It has to begin with sqlite:/// (sql) or http (rest)"]
        if not _NAME.fullmatch(given.get("iceberg.tables", "")) or "." not in given.get("iceberg.tables", ""):
            problems["iceberg.tables"] = ["It is NAMESPACE.NAME, one table; ${topic} stands for the topic"]
        return problems

    def forget(self, partitions: Sequence[TopicPartition] | None) -> None:
        task = IcebergSinkTask()
        catalogue = task.catalogue(self.settings, self.given)
        start = _prefix(self.given.get("name", ""))
        wanted = None if partitions is None else {_property(self.given["name"], at) for at in partitions}
        space, _, form = str(self.settings["iceberg.tables"]).rpartition(".")
        with _translated():
            for name in catalogue.list_tables(space) if catalogue.namespace_exists(space) else ():
                if "${topic}" not in form and name[-1] != form:
                    continue
                table = catalogue.load_table(name)
                gone = [
                    each
                    for each in table.properties
                    if each.startswith(start) and (wanted is None or each in wanted)
                ]
                if gone:
                    with table.transaction() as transaction:
                        transaction.remove_properties(*gone)


class IcebergSinkTask(LakeSinkTask):
    extra = _EXTRA

    def parsed(self, settings: Mapping[str, str]) -> Settings:
        parsed = IcebergSink.config.parse(settings)
        self._catalogue = self.catalogue(parsed, settings)
        return parsed

    def catalogue(self, parsed: Settings, given: Mapping[str, str]) -> Any:
        found = {
            name.removeprefix(_CATALOGUE): value
            for name, value in given.items()
            if name.startswith(_CATALOGUE) and name.removeprefix(_CATALOGUE) in _ALLOWED
        }
        with _translated():
            return library("pyiceberg.catalog", _EXTRA).load_catalog("moldau", **found)

    def table_name(self, topic: str) -> str:
        return str(self._settings["iceberg.tables"].replace("${topic}", topic.replace(".", "_")))

    def open(self, name: str) -> LakeTable:
        return IcebergTable(self._catalogue, name)


@contextmanager
def _translated() -> Iterator[None]:
    errors = library("pyiceberg.exceptions", _EXTRA)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyiceberg warns of deletes that find nothing
            yield
    except (errors.CommitFailedException, errors.CommitStateUnknownException) as error:
        raise RetriableException(f"Another commit was first: {error}") from None
    except (errors.ServiceUnavailableError, errors.ServerError, OSError) as error:
        raise RetriableException(f"The catalogue cannot be reached: {error}") from None
    except (errors.RESTError, errors.ValidationError, errors.NoSuchNamespaceError, ValueError) as error:
        raise ConnectException(f"Iceberg says: {error}") from None


class IcebergTable(LakeTable):
    def __init__(self, catalogue: Any, name: str) -> None:
        self._catalogue, self._name = catalogue, name
        with _translated():
            self._table = catalogue.load_table(name) if catalogue.table_exists(name) else None

    def schema(self) -> Any:
        return None if self._table is None else self._table.schema().as_arrow()

    def end(self, connector: str, at: TopicPartition) -> int:
        return 0 if self._table is None else int(self._table.properties.get(_property(connector, at), 0))

    def append(self, rows: Any, connector: str, ends: Mapping[TopicPartition, int]) -> None:
        self._commit(rows, (), connector, ends)

    def upsert(
        self, rows: Any, keys: Sequence[str], connector: str, ends: Mapping[TopicPartition, int]
    ) -> None:
        self._commit(rows, keys, connector, ends)

    def _commit(
        self, rows: Any, keys: Sequence[str], connector: str, ends: Mapping[TopicPartition, int]
    ) -> None:
        with _translated():
            if self._table is None:
                space = self._name.rpartition(".")[0]
                self._catalogue.create_namespace_if_not_exists(space)
                self._table = self._catalogue.create_table_if_not_exists(self._name, rows.schema)
                if any(self.end(connector, at) for at in ends):
                    raise RetriableException("Another task made the table")
            # pyiceberg would try again by itself on top of a commit that it has not looked into.
            self._table.metadata.properties["commit.retry.num-retries"] = "0"
            with self._table.transaction() as transaction:
                shown = rows.drop_columns([GONE]) if keys else rows
                with transaction.update_schema() as update:
                    update.union_by_name(shown.schema)
                if keys:
                    transaction.delete(self._filter(rows, keys))
                    shown = shown.filter(library("pyarrow.compute", _EXTRA).invert(rows.column(GONE)))
                if shown.num_rows:
                    transaction.append(shown)
                properties = {_property(connector, at): str(end) for at, end in ends.items()}
                transaction.set_properties(properties)

    def _filter(self, rows: Any, keys: Sequence[str]) -> Any:
        expressions = library("pyiceberg.expressions", _EXTRA)
        columns = [rows.column(key).to_pylist() for key in keys]
        if len(keys) == 1:
            return expressions.In(keys[0], set(columns[0]))
        each = [
            expressions.And(*(expressions.EqualTo(key, value) for key, value in zip(keys, row, strict=True)))
            for row in zip(*columns, strict=True)
        ]
        return each[0] if len(each) == 1 else expressions.Or(*each)


def _prefix(connector: str) -> str:
    return f"moldau-connect/{connector}/"


def _property(connector: str, at: TopicPartition) -> str:
    return f"{_prefix(connector)}{at.topic}/{at.partition}"
