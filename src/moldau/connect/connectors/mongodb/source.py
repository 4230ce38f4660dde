"""MongoSource: changes of collections by a change stream, after what is there if that is asked for.

The stream is opened before documents are copied and goes on from there, so that nothing falls between.
Records are texts of JSON, as of MongoDB's own connector: the event, or the document alone.

Invariant: a place is a token from which the server goes on; documents are copied again if the copy was not
finished.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import OneOf, Range
from moldau.connect.connector import SourceConnector, SourceTask, SourceTaskContext
from moldau.connect.connectors.libraries import library
from moldau.connect.connectors.mongodb.documents import EXTRA, files_of, hosts_of, json_text, token_text
from moldau.connect.connectors.mongodb.sink import CONNECTION, open_client, translate, uri_problems
from moldau.connect.data.schema import Schema
from moldau.connect.data.types import Type
from moldau.connect.errors import ConnectException
from moldau.connect.records import SourceRecord

_MEDIUM = Importance.MEDIUM
_TEXT = Schema(Type.STRING)
_COPIED = "copied"


class MongoSource(SourceConnector):
    class_name = "com.mongodb.kafka.connect.MongoSourceConnector"
    task_class_name = "com.mongodb.kafka.connect.source.MongoSourceTask"
    config = ConfigDef(
        *CONNECTION,
        ConfigKey("collection", ConfigType.STRING, "", _MEDIUM, "The collection; all where it is empty."),
        ConfigKey("topic.prefix", ConfigType.STRING, "", _MEDIUM, "Before DATABASE.COLLECTION."),
        ConfigKey(
            "startup.mode",
            ConfigType.STRING,
            "latest",
            _MEDIUM,
            "copy_existing begins with the documents that are there.",
            OneOf("latest", "copy_existing"),
        ),
        ConfigKey("pipeline", ConfigType.STRING, "[]", _MEDIUM, "Stages of aggregation on events, as JSON."),
        ConfigKey(
            "publish.full.document.only", ConfigType.BOOLEAN, False, _MEDIUM, "Documents in place of events."
        ),
        ConfigKey(
            "change.stream.full.document",
            ConfigType.STRING,
            "default",
            _MEDIUM,
            "updateLookup brings whole documents with updates.",
            OneOf("default", "updateLookup", "whenAvailable", "required"),
        ),
        ConfigKey("poll.max.batch.size", ConfigType.INT, 1000, _MEDIUM, "Records at a time.", Range(1)),
        ConfigKey("poll.await.time.ms", ConfigType.LONG, 1000, _MEDIUM, "How long to wait.", Range(1)),
    )

    def make_task(self) -> SourceTask:
        return MongoSourceTask()

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        problems = uri_problems(given)
        try:
            stages = json.loads(given.get("pipeline", "[]") or "[]")
            if not isinstance(stages, list):
                problems["pipeline"] = ["It is a list of stages"]
        except ValueError as error:
            problems["pipeline"] = [f"It is no JSON: {error}"]
        return problems

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        return hosts_of(given.get("connection.uri", ""))

    @classmethod
    def paths(cls, given: Mapping[str, str]) -> list[str]:
        return files_of(given.get("connection.uri", ""))


class MongoSourceTask(SourceTask):
    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        self._settings = MongoSource.config.parse(settings)
        self._context = context
        self._errors = library("pymongo.errors", EXTRA)
        self._client: Any = open_client(self._settings)
        self._database = self._client[self._settings["database"]]
        name = self._settings["collection"]
        self._partition = {
            "ns": f"{self._settings['database']}.{name}" if name else self._settings["database"]
        }
        self._records: Generator[list[SourceRecord], None, None] | None = None

    def stop(self) -> None:
        if getattr(self, "_records", None) is not None and self._records is not None:
            self._records.close()
        client = getattr(self, "_client", None)
        if client is not None:
            client.close()

    def poll(self) -> Sequence[SourceRecord]:
        try:
            if self._records is None:
                self._records = self._work()
            return next(self._records, [])
        except self._errors.PyMongoError as error:
            raise translate(error) from None

    def _work(self) -> Generator[list[SourceRecord], None, None]:
        place = self._context.offset_of(self._partition)
        token = None if place is None else json.loads(str(place["_id"]))
        copies = self._settings["startup.mode"] == "copy_existing" and (
            place is None or place.get(_COPIED) is False
        )
        with self._watch(token) as stream:
            if copies:
                if token is None:
                    stream.try_next()
                    token = stream.resume_token
                yield from self._copy(token)
            yield from self._follow(stream)

    def _watch(self, token: Any) -> Any:
        options: dict[str, Any] = {"max_await_time_ms": self._settings["poll.await.time.ms"]}
        whole = self._settings["change.stream.full.document"]
        if self._settings["publish.full.document.only"] and whole == "default":
            whole = "updateLookup"
        if whole != "default":
            options["full_document"] = whole
        if token is not None:
            options["resume_after"] = token
        target = self._database
        if self._settings["collection"]:
            target = target[self._settings["collection"]]
        stages = json.loads(self._settings["pipeline"] or "[]")
        try:
            return target.watch(stages, **options)
        except self._errors.OperationFailure as error:
            if error.has_error_label("NonResumableChangeStreamError") or error.code in (286, 280):
                raise ConnectException(
                    "The server's log no longer has the place where this source was. Next: stop the "
                    f"connector, DELETE /connectors/{self._context.connector}/offsets, and resume it"
                ) from None
            raise

    def _copy(self, token: Any) -> Generator[list[SourceRecord], None, None]:
        names = [self._settings["collection"]] if self._settings["collection"] else None
        if names is None:
            names = sorted(self._database.list_collection_names(filter={"type": "collection"}))
        size = self._settings["poll.max.batch.size"]
        batch: list[SourceRecord] = []
        held: SourceRecord | None = None
        for name in names:
            for document in self._database[name].find(batch_size=size):
                if held is not None:
                    batch.append(held)
                held = self._copied(name, document, token)
                if len(batch) >= size:
                    yield batch
                    batch = []
        if held is not None:
            batch.append(held.replaced(source_offset={"_id": token_text(token), _COPIED: True}))
        yield batch

    def _copied(self, collection: str, document: Any, token: Any) -> SourceRecord:
        event = {
            "_id": {"_id": document["_id"], "copyingData": True},
            "operationType": "insert",
            "documentKey": {"_id": document["_id"]},
            "fullDocument": document,
            "ns": {"db": self._settings["database"], "coll": collection},
        }
        return self._record(event, {"_id": token_text(token), _COPIED: False})

    def _follow(self, stream: Any) -> Generator[list[SourceRecord], None, None]:
        while True:
            found: list[SourceRecord] = []
            while len(found) < self._settings["poll.max.batch.size"]:
                event = stream.try_next()
                if event is None:
                    break
                if "ns" in event and (event.get("documentKey") is not None):
                    found.append(self._record(event, {"_id": token_text(event["_id"])}))
                if stream.alive is False:
                    break
            yield found

    def _record(self, event: Mapping[str, Any], offset: Mapping[str, object]) -> SourceRecord:
        namespace = f"{event['ns']['db']}.{event['ns']['coll']}"
        prefix = self._settings["topic.prefix"]
        key, value = json_text({"_id": event["_id"]}), json_text(event)
        has_value = True
        if self._settings["publish.full.document.only"]:
            key = json_text(event["documentKey"])
            has_value = event.get("fullDocument") is not None
            value = json_text(event.get("fullDocument"))
        return SourceRecord(
            topic=f"{prefix}.{namespace}" if prefix else namespace,
            key_schema=_TEXT,
            key=key,
            value_schema=_TEXT if has_value else None,
            value=value if has_value else None,
            source_partition=self._partition,
            source_offset=offset,
        )
