"""MongoSink: records as documents of a collection, by their keys.

Every document has an ``_id`` that follows from its record, so that a batch which comes again writes the same
documents once more. A tombstone deletes, if that is asked for.

Invariant: records of one key are written in their order; a document that the server refuses is reported by
itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import Checked, Range
from moldau.connect.connector import SinkConnector, SinkTask, SinkTaskContext
from moldau.connect.connectors.libraries import library
from moldau.connect.connectors.mongodb.documents import EXTRA, document_of, files_of, hosts_of, id_of
from moldau.connect.errors import ConfigException, ConnectException, DataException, RetriableException
from moldau.connect.records import SinkRecord

_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM
_STRATEGIES = ("auto", "fullkey", "providedinkey", "providedinvalue", "kafkametadata")
_DUPLICATE_KEY = 11000

CONNECTION = (
    ConfigKey("connection.uri", ConfigType.PASSWORD, importance=_HIGH, doc="mongodb://user:password@host/."),
    ConfigKey("database", ConfigType.STRING, importance=_HIGH, doc="The database."),
)


def strategy_of(text: str) -> str:
    """``fullkey``, also as ``com.mongodb.kafka.connect.sink.processor.id.strategy.FullKeyStrategy``."""
    return text.rpartition(".")[2].lower().removesuffix("strategy")


def _known(name: str, value: object) -> None:
    if strategy_of(str(value)) not in _STRATEGIES:
        raise ConfigException.of(name, value, f"Known are {', '.join(_STRATEGIES)}")


def uri_problems(given: Mapping[str, str]) -> dict[str, list[str]]:
    try:
        hosts_of(given.get("connection.uri", ""))
    except (ConfigException, ValueError) as error:
        return {"connection.uri": [str(error)]}
    return {}


class MongoSink(SinkConnector):
    class_name = "com.mongodb.kafka.connect.MongoSinkConnector"
    task_class_name = "com.mongodb.kafka.connect.sink.MongoSinkTask"
    config = ConfigDef(
        *CONNECTION,
        ConfigKey("collection", ConfigType.STRING, "", _HIGH, "The collection; the topic where it is empty."),
        ConfigKey(
            "document.id.strategy",
            ConfigType.STRING,
            "auto",
            _MEDIUM,
            "Where _id comes from: fullkey, providedinkey, providedinvalue, kafkametadata (topic, partition "
            "and offset), or auto: the key, else the value's _id, else topic, partition and offset.",
            Checked(_known, "a strategy"),
        ),
        ConfigKey("delete.on.null.values", ConfigType.BOOLEAN, False, _MEDIUM, "Delete by tombstones."),
        ConfigKey("max.batch.size", ConfigType.INT, 1000, _MEDIUM, "Documents in a request.", Range(1)),
    )

    def make_task(self) -> SinkTask:
        return MongoSinkTask()

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        return uri_problems(given)

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        return hosts_of(given.get("connection.uri", ""))

    @classmethod
    def paths(cls, given: Mapping[str, str]) -> list[str]:
        return files_of(given.get("connection.uri", ""))


def open_client(settings: Mapping[str, Any]) -> Any:
    pymongo = library("pymongo", EXTRA)
    uri = settings["connection.uri"].secret
    patience = {} if "serverselectiontimeoutms" in uri.lower() else {"serverSelectionTimeoutMS": 20_000}
    return pymongo.MongoClient(uri, appname="moldau-connect", **patience)


def translate(error: Exception) -> Exception:
    """An error of the driver as one that a worker knows; the address with its password is left out."""
    errors = library("pymongo.errors", EXTRA)
    text = f"mongodb says: {str(error).partition(', Timeout:')[0][:500]}"
    passing = (errors.AutoReconnect, errors.WTimeoutError, errors.ExecutionTimeout)
    labelled = isinstance(error, errors.PyMongoError) and (
        error.has_error_label("RetryableWriteError") or error.has_error_label("TransientTransactionError")
    )
    return (RetriableException if isinstance(error, passing) or labelled else ConnectException)(text)


class MongoSinkTask(SinkTask):
    def start(self, settings: Mapping[str, str], context: SinkTaskContext) -> None:
        self._settings = MongoSink.config.parse(settings)
        self._context = context
        self._errors = library("pymongo.errors", EXTRA)
        self._pymongo = library("pymongo", EXTRA)
        self._strategy = strategy_of(self._settings["document.id.strategy"])
        self._client = open_client(self._settings)

    def stop(self) -> None:
        client = getattr(self, "_client", None)
        if client is not None:
            client.close()

    def put(self, records: Sequence[SinkRecord]) -> None:
        by_collection: dict[str, list[tuple[SinkRecord, Any]]] = {}
        for record in records:
            try:
                request = self._request(record)
            except DataException as error:
                self._context.report(record, error)
                continue
            name = self._settings["collection"] or record.topic
            by_collection.setdefault(name, []).append((record, request))
        size = self._settings["max.batch.size"]
        for name, found in by_collection.items():
            for start in range(0, len(found), size):
                self._write(name, found[start : start + size])

    def _request(self, record: SinkRecord) -> Any:
        if record.value is None:
            if not self._settings["delete.on.null.values"]:
                raise DataException("A tombstone is no document. Next: delete.on.null.values=true")
            return self._pymongo.DeleteOne({"_id": id_of(record, self._strategy, None)})
        document = document_of(record.value)
        found = id_of(record, self._strategy, document)
        return self._pymongo.ReplaceOne({"_id": found}, {**document, "_id": found}, upsert=True)

    def _write(self, name: str, found: Sequence[tuple[SinkRecord, Any]]) -> None:
        """In order; where one is refused, it is reported, and the rest goes on behind it."""
        collection = self._client[self._settings["database"]][name]
        rest = list(found)
        while rest:
            try:
                collection.bulk_write([request for _, request in rest], ordered=True)
                return
            except self._errors.BulkWriteError as error:
                details = error.details or {}
                problems = details.get("writeErrors") or []
                if not problems:
                    raise RetriableException("mongodb says: the write is not confirmed") from None
                place, code = problems[0]["index"], problems[0].get("code")
                record = rest[place][0]
                if code == _DUPLICATE_KEY:
                    # Two upserts of one new document met; the second finds it there.
                    rest = rest[place:]
                    continue
                text = f"mongodb says: {problems[0].get('errmsg', '')[:300]}"
                self._context.report(record, DataException(text))
                rest = rest[place + 1 :]
            except self._errors.PyMongoError as error:
                raise translate(error) from None
            except (library("bson.errors", EXTRA).BSONError, OverflowError, UnicodeError) as error:
                if len(rest) == 1:
                    self._context.report(rest[0][0], DataException(f"A document cannot be written: {error}"))
                    return
                for each in rest:  # which of them it is, the driver does not say; upserts may come again
                    self._write(name, [each])
                return
