"""HttpSink: each record, or a batch of them, as a POST.

Invariant: a record counts as written when the service answered 2xx; one that it refuses (4xx) is reported by
itself, and a service that is away or overloaded is tried again.
"""

from collections.abc import Mapping, Sequence

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import OneOf, Range
from moldau.connect.connector import SinkConnector, SinkTask, SinkTaskContext
from moldau.connect.connectors.http.client import Answer, HttpClient, body_of, check_url, host_of
from moldau.connect.errors import ConfigException, DataException, RetriableException
from moldau.connect.records import SinkRecord

_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM


class HttpSink(SinkConnector):
    class_name = "io.aiven.kafka.connect.http.HttpSinkConnector"
    task_class_name = "io.aiven.kafka.connect.http.HttpSinkTask"
    synonyms = ("io.confluent.connect.http.HttpSinkConnector",)
    config = ConfigDef(
        ConfigKey("http.url", ConfigType.STRING, importance=_HIGH, doc="Where records are posted to."),
        ConfigKey(
            "http.authorization.type",
            ConfigType.STRING,
            "none",
            _HIGH,
            "none, static (a header) or basic (user and password).",
            OneOf("none", "static", "basic"),
        ),
        ConfigKey("http.headers.authorization", ConfigType.PASSWORD, None, _MEDIUM, "The header, if static."),
        ConfigKey("http.user", ConfigType.STRING, None, _MEDIUM, "The user, if basic."),
        ConfigKey("http.password", ConfigType.PASSWORD, None, _MEDIUM, "Their password."),
        ConfigKey("http.headers.content.type", ConfigType.STRING, "application/json", _MEDIUM, "The type."),
        ConfigKey("http.timeout", ConfigType.INT, 30, _MEDIUM, "Seconds to wait for an answer.", Range(1)),
        ConfigKey("batching.enabled", ConfigType.BOOLEAN, False, _MEDIUM, "Many records in one POST."),
        ConfigKey("batch.max.size", ConfigType.INT, 500, _MEDIUM, "How many.", Range(1, 1_000_000)),
        ConfigKey("batch.prefix", ConfigType.STRING, "", _MEDIUM, "Before a batch, such as [."),
        ConfigKey("batch.suffix", ConfigType.STRING, "\n", _MEDIUM, "Behind a batch, such as ]."),
        ConfigKey("batch.separator", ConfigType.STRING, "\n", _MEDIUM, "Between records."),
    )

    def make_task(self) -> SinkTask:
        return HttpSinkTask()

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        try:
            check_url(given.get("http.url", ""))
        except ConfigException as error:
            return {"http.url": [error.message]}
        return {}

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        return [host_of(given.get("http.url", ""))]


class HttpSinkTask(SinkTask):
    def start(self, settings: Mapping[str, str], context: SinkTaskContext) -> None:
        parsed = HttpSink.config.parse(settings)
        # Blanks at the ends of settings are cut off, but here they mean something.
        self._before, self._behind, self._separator = (
            settings.get(name, parsed[name]).encode()
            for name in ("batch.prefix", "batch.suffix", "batch.separator")
        )
        self._context = context
        self._size: int = parsed["batch.max.size"] if parsed["batching.enabled"] else 1
        headers = {"Content-Type": parsed["http.headers.content.type"]}
        kind, secret = parsed["http.authorization.type"], parsed["http.headers.authorization"]
        if kind == "static" and secret is not None:
            headers["Authorization"] = secret.secret
        user = parsed["http.user"] if kind == "basic" else None
        password = parsed["http.password"]
        word = None if password is None else password.secret
        self._client = HttpClient(parsed["http.url"], headers, user, word, parsed["http.timeout"])

    def stop(self) -> None:
        client = getattr(self, "_client", None)
        if client is not None:
            client.close()

    def put(self, records: Sequence[SinkRecord]) -> None:
        for start in range(0, len(records), self._size):
            self._post(records[start : start + self._size])

    def _post(self, records: Sequence[SinkRecord]) -> None:
        bodies = [body_of(record.value_schema, record.value) for record in records]
        body = bodies[0]
        if self._size > 1:
            body = self._before + self._separator.join(bodies) + self._behind
        answer = self._client.send("POST", "", body)
        if 200 <= answer.status < 300:
            return
        if answer.passes:
            raise RetriableException(f"The service answers {answer.status}")
        if len(records) > 1:
            for record in records:  # one of them is bad: each by itself
                self._post([record])
            return
        self._context.report(records[0], DataException(_said(answer)))


def _said(answer: Answer) -> str:
    return f"The service answers {answer.status}: {answer.body[:200].decode('utf-8', 'replace')}"
