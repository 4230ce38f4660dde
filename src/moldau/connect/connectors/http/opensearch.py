"""OpenSearchSink: records as documents of an index, in Elasticsearch or OpenSearch, by their bulk API.

A document has the key of its record as id, or topic, partition and offset; the offset is its version, so that
a batch which comes again, or late, changes nothing.

Invariant: a document that the index refuses is reported by itself; one whose newer version is there counts as
written.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import OneOf, Range
from moldau.connect.connector import SinkConnector, SinkTask, SinkTaskContext
from moldau.connect.connectors.http.client import HttpClient, body_of, check_url, host_of
from moldau.connect.data.schema import Struct
from moldau.connect.data.text import java_text
from moldau.connect.errors import ConfigException, ConnectException, DataException, RetriableException
from moldau.connect.records import SinkRecord

_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM
_MAX_ID_BYTES = 512


class OpenSearchSink(SinkConnector):
    class_name = "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector"
    task_class_name = "io.aiven.kafka.connect.opensearch.OpensearchSinkTask"
    synonyms = (
        "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
        "io.aiven.connect.elasticsearch.ElasticsearchSinkConnector",
        "ElasticsearchSinkConnector",
        "ElasticsearchSink",
    )
    config = ConfigDef(
        ConfigKey("connection.url", ConfigType.LIST, importance=_HIGH, doc="http://host:9200, or several."),
        ConfigKey("connection.username", ConfigType.STRING, None, _MEDIUM, "The user."),
        ConfigKey("connection.password", ConfigType.PASSWORD, None, _MEDIUM, "Their password."),
        ConfigKey("index.name", ConfigType.STRING, "", _MEDIUM, "The index; the topic where it is empty."),
        ConfigKey("key.ignore", ConfigType.BOOLEAN, False, _HIGH, "Ids from topic, partition and offset."),
        ConfigKey(
            "behavior.on.null.values",
            ConfigType.STRING,
            "ignore",
            _MEDIUM,
            "What a tombstone does: ignore, delete or fail.",
            OneOf("ignore", "delete", "fail"),
        ),
        ConfigKey("batch.size", ConfigType.INT, 2000, _MEDIUM, "Documents in a request.", Range(1)),
        ConfigKey("read.timeout.ms", ConfigType.INT, 30_000, _MEDIUM, "How long to wait.", Range(1)),
    )

    def make_task(self) -> SinkTask:
        return OpenSearchSinkTask()

    def has_offsets_in_rows(self) -> bool:
        return not self.settings["key.ignore"]

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        try:
            for url in given.get("connection.url", "").split(","):
                check_url(url)
        except ConfigException as error:
            return {"connection.url": [error.message]}
        return {}

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        return [host_of(url) for url in given.get("connection.url", "").split(",")]


class OpenSearchSinkTask(SinkTask):
    def start(self, settings: Mapping[str, str], context: SinkTaskContext) -> None:
        self._settings = OpenSearchSink.config.parse(settings)
        self._context = context
        password = self._settings["connection.password"]
        self._clients = [
            HttpClient(
                url,
                {"Content-Type": "application/x-ndjson"},
                self._settings["connection.username"],
                None if password is None else password.secret,
                self._settings["read.timeout.ms"] / 1000,
            )
            for url in self._settings["connection.url"]
        ]

    def stop(self) -> None:
        for client in getattr(self, "_clients", []):
            client.close()

    def put(self, records: Sequence[SinkRecord]) -> None:
        actions: list[tuple[SinkRecord, bytes]] = []
        for record in records:
            try:
                action = self._action(record)
            except DataException as error:
                self._context.report(record, error)
                continue
            if action is not None:
                actions.append((record, action))
        size = self._settings["batch.size"]
        for start in range(0, len(actions), size):
            self._send(actions[start : start + size])

    def _action(self, record: SinkRecord) -> bytes | None:
        index = (self._settings["index.name"] or record.topic).lower()
        target: dict[str, Any] = {"_index": index, "_id": self._id(record)}
        target |= {"version": record.offset, "version_type": "external"}
        if record.value is None:
            behaviour = self._settings["behavior.on.null.values"]
            if behaviour == "fail":
                raise DataException("A tombstone, and behavior.on.null.values is fail")
            deletes = behaviour == "delete" and record.key is not None
            return json.dumps({"delete": target}).encode() + b"\n" if deletes else None
        if not isinstance(record.value, Struct | dict | str | bytes):
            raise DataException("The value has to be a struct or a JSON object to become a document")
        body = body_of(record.value_schema, record.value)
        if not body.lstrip().startswith(b"{"):
            raise DataException("The value has to be a struct or a JSON object to become a document")
        return json.dumps({"index": target}).encode() + b"\n" + body.replace(b"\n", b" ") + b"\n"

    def _id(self, record: SinkRecord) -> str:
        if self._settings["key.ignore"]:
            topic = record.original_topic or record.topic
            return f"{topic}+{record.original_partition or record.partition or 0}+{record.offset}"
        if record.key is None:
            raise DataException("The record has no key. Next: key.ignore=true")
        found = (
            body_of(record.key_schema, record.key).decode("utf-8", "replace")
            if isinstance(record.key, Struct | dict | bytes)
            else java_text(record.key)
        )
        if len(found.encode()) > _MAX_ID_BYTES:
            raise DataException(f"The key is longer than the {_MAX_ID_BYTES} bytes that an id may have")
        return found

    def _send(self, actions: Sequence[tuple[SinkRecord, bytes]]) -> None:
        body = b"".join(action for _, action in actions)
        answer = self._asked(body)
        later = 0
        for (record, _), item in zip(actions, answer["items"], strict=True):
            (outcome,) = item.values()
            status = int(outcome["status"])
            if status < 300 or status == 409 or (status == 404 and "delete" in item):
                continue
            if status == 429 or status >= 500:
                later += 1
                continue
            problem = outcome.get("error") or {}
            said = f"{problem.get('type')}: {str(problem.get('reason'))[:300]}"
            self._context.report(record, DataException(f"The index refuses the document: {said}"))
        if later:
            # Those that were written are passed over by their version when all come again.
            raise RetriableException(f"The cluster is too busy for {later} of {len(actions)} documents")

    def _asked(self, body: bytes) -> Any:
        problem: Exception | None = None
        for number, client in enumerate(list(self._clients)):
            try:
                answer = client.send("POST", "/_bulk", body)
            except RetriableException as error:
                problem = error
                continue
            self._clients = self._clients[number:] + self._clients[:number]
            if answer.status == 200:
                return answer.json()
            said = f"The cluster answers {answer.status}: {answer.body[:200].decode('utf-8', 'replace')}"
            raise (RetriableException if answer.passes else ConnectException)(said)
        assert problem is not None
        raise problem
