"""DeltaSink: records as rows of Delta tables, by deltalake.

Offsets are Delta's own transaction identifiers: one for each connector, topic and partition, with the offset
as its version, in the commit of the rows. Delta refuses a commit whose identifier another one changed
meanwhile.

Invariant: see ``tables/sink.py``.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from moldau.base.names import TopicPartition
from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Settings
from moldau.connect.connector import SinkConnector, SinkTask
from moldau.connect.connectors.libraries import library
from moldau.connect.connectors.tables.sink import GONE, WRITING, LakeSinkTask, LakeTable, writing_problems
from moldau.connect.errors import ConnectException, RetriableException

_EXTRA = "connect-delta"
#: Under this name and the connector's, a commit says which partitions it has rows of.
_OFFSETS = "moldau-connect."
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


class DeltaSink(SinkConnector):
    class_name = "io.moldau.connect.tables.DeltaSinkConnector"
    task_class_name = "io.moldau.connect.tables.DeltaSinkTask"
    holds_back = True
    config = ConfigDef(
        ConfigKey("delta.path", ConfigType.STRING, importance=_HIGH, doc="A folder, or s3://BUCKET/FOLDER."),
        ConfigKey(
            "table.name.format",
            ConfigType.STRING,
            "${topic}",
            _MEDIUM,
            "The folder of a table in it; ${topic} stands for the topic.",
        ),
        *WRITING,
        ConfigKey("s3.region", ConfigType.STRING, "us-west-2", _MEDIUM, "The region of a bucket."),
        ConfigKey("store.url", ConfigType.STRING, None, _LOW, "The address of a store that is not Amazon's."),
        ConfigKey("aws.access.key.id", ConfigType.STRING, None, _MEDIUM, "The name of the key."),
        ConfigKey("aws.secret.access.key", ConfigType.PASSWORD, None, _MEDIUM, "The key."),
    )

    def make_task(self) -> SinkTask:
        return DeltaSinkTask()

    @classmethod
    def paths(cls, given: Mapping[str, str]) -> list[str]:
        path = given.get("delta.path", "")
        return [path] if path and "://" not in path else []

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        from urllib.parse import urlsplit

        url = given.get("store.url", "")
        return [urlsplit(url).hostname or ""] if url else []

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        problems = writing_problems(given)
        path = given.get("delta.path", "")
        if "://" in path and not path.startswith("s3://"):
            problems["delta.path"] = ["It is a folder of the worker's machine, or s3://BUCKET/FOLDER"]
        if not _is_name(given.get("table.name.format", "${topic}")):
            problems["table.name.format"] = ["It is the name of a folder"]
        return problems

    def forget(self, partitions: Sequence[TopicPartition] | None) -> None:
        """Delta does not let go of an identifier, but takes a lower version: nothing is behind offset 0."""
        topics = {at.topic for at in partitions or ()}
        topics |= {each.strip() for each in self.given.get("topics", "").split(",") if partitions is None}
        task = DeltaSinkTask()
        task.configure(self.settings)
        name = self.given.get("name", "")
        for place in {task.table_name(topic) for topic in topics - {""}}:
            table = task.open(place)
            known = table.partitions(name)
            table.reset(name, known if partitions is None else known & set(partitions))


def _is_name(text: str) -> bool:
    return bool(text) and not text.startswith("/") and ".." not in text.split("/")


class DeltaSinkTask(LakeSinkTask):
    extra = _EXTRA

    def parsed(self, settings: Mapping[str, str]) -> Settings:
        return DeltaSink.config.parse(settings)

    def configure(self, settings: Settings) -> None:
        self._settings = settings

    def table_name(self, topic: str) -> str:
        return str(self._settings["table.name.format"].replace("${topic}", topic))

    def open(self, name: str) -> "DeltaFolder":
        secret = self._settings["aws.secret.access.key"]
        path = str(self._settings["delta.path"]).rstrip("/")
        options: dict[str, str | None] = {}
        if path.startswith("s3://"):
            url = self._settings["store.url"]
            options = {
                "aws_region": self._settings["s3.region"],
                "aws_endpoint": url,
                "aws_access_key_id": self._settings["aws.access.key.id"],
                "aws_secret_access_key": None if secret is None else secret.secret,
                "aws_allow_http": "true" if str(url or "").startswith("http:") else None,
                "aws_conditional_put": "etag",
            }
        return DeltaFolder(f"{path}/{name}", {key: value for key, value in options.items() if value})


@contextmanager
def _translated() -> Iterator[None]:
    errors = library("deltalake.exceptions", _EXTRA)
    try:
        yield
    except errors.CommitFailedError as error:
        raise RetriableException(f"Another commit was first: {error}") from None
    except errors.DeltaError as error:
        raise ConnectException(f"Delta says: {error}") from None
    except OSError as error:
        raise RetriableException(f"The place of the table cannot be reached: {error}") from None


class DeltaFolder(LakeTable):
    def __init__(self, place: str, options: Mapping[str, str]) -> None:
        delta = library("deltalake", _EXTRA)
        self._delta, self._place, self._options = delta, place, dict(options)
        with _translated():
            there = delta.DeltaTable.is_deltatable(place, self._options)
            self._table = delta.DeltaTable(place, storage_options=self._options) if there else None

    def schema(self) -> Any:
        if self._table is None:
            return None
        return library("pyarrow", _EXTRA).schema(self._table.schema().to_arrow())

    def end(self, connector: str, at: TopicPartition) -> int:
        if self._table is None:
            return 0
        return self._table.transaction_version(_identifier(connector, at)) or 0

    def append(self, rows: Any, connector: str, ends: Mapping[TopicPartition, int]) -> None:
        with _translated():
            self._delta.write_deltalake(
                self._place if self._table is None else self._table,
                rows,
                mode="error" if self._table is None else "append",
                schema_mode=None if self._table is None else "merge",
                storage_options=self._options or None,
                commit_properties=self._properties(connector, ends),
            )

    def upsert(
        self, rows: Any, keys: Sequence[str], connector: str, ends: Mapping[TopicPartition, int]
    ) -> None:
        columns = {_quoted(name): f"s.{_quoted(name)}" for name in rows.schema.names if name != GONE}
        assert self._table is not None
        with _translated():
            (
                self._table.merge(
                    rows,
                    predicate=" AND ".join(f"t.{_quoted(key)} = s.{_quoted(key)}" for key in keys),
                    source_alias="s",
                    target_alias="t",
                    merge_schema=True,
                    commit_properties=self._properties(connector, ends),
                )
                .when_matched_delete(f"s.{GONE}")
                .when_matched_update(columns)
                .when_not_matched_insert(columns, predicate=f"NOT s.{GONE}")
                .execute()
            )

    def partitions(self, connector: str) -> set[TopicPartition]:
        """Those of which the commits that are still in the log know."""
        found: set[TopicPartition] = set()
        for commit in [] if self._table is None else self._table.history():
            for topic, partition in json.loads(commit.get(f"{_OFFSETS}{connector}", "[]")):
                found.add(TopicPartition(topic, partition))
        return found

    def reset(self, connector: str, partitions: Iterable[TopicPartition]) -> None:
        ends = dict.fromkeys(partitions, 0)
        if ends and self._table is not None:
            self.append(self.schema().empty_table(), connector, ends)

    def _properties(self, connector: str, ends: Mapping[TopicPartition, int]) -> Any:
        transaction = self._delta.Transaction
        return self._delta.CommitProperties(
            custom_metadata={f"{_OFFSETS}{connector}": json.dumps([[at.topic, at.partition] for at in ends])},
            app_transactions=[transaction(_identifier(connector, at), end) for at, end in ends.items()],
        )


def _identifier(connector: str, at: TopicPartition) -> str:
    return f"moldau-connect/{connector}/{at.topic}/{at.partition}"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
