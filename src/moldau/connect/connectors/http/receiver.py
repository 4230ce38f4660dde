"""HttpReceiver: listens, and each POST becomes a record.

A request is answered when its record is written: 204 means that the brokers have acknowledged it. 503 means
that it was not written, 504 that nobody knows. Senders that try again write at least once.

Invariant: bodies that wait are never more than ``http.queue.max.records`` and ``http.queue.max.bytes``.
"""

import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import NonEmptyString, OneOf, Range
from moldau.connect.connector import SourceConnector, SourceTask, SourceTaskContext
from moldau.connect.connectors.http.received import BYTES, JSON, STRING, Shape, parse_topics
from moldau.connect.errors import ConfigException, ConnectException
from moldau.connect.records import SourceRecord

if TYPE_CHECKING:
    from moldau.connect.connectors.http.listening import Bounds, Login
    from moldau.web.tls import TlsOptions

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_POLL_SECONDS = 0.2
_TLS = ("http.tls.cert", "http.tls.key", "http.tls.client.ca")


class HttpReceiver(SourceConnector):
    class_name = "io.moldau.connect.http.HttpReceiverConnector"
    task_class_name = "io.moldau.connect.http.HttpReceiverTask"
    path_settings = _TLS
    config = ConfigDef(
        ConfigKey("topic", ConfigType.STRING, "", _HIGH, "The topic of paths that http.topics has not."),
        ConfigKey("http.topics", ConfigType.LIST, [], _HIGH, "Topics by path: /orders=orders, /logs=logs."),
        ConfigKey(
            "http.host", ConfigType.STRING, "127.0.0.1", _HIGH, "The address to listen on.", NonEmptyString()
        ),
        ConfigKey("http.port", ConfigType.INT, 8480, _HIGH, "The port; 0 is a free one.", Range(0, 65535)),
        ConfigKey(
            "http.value.format",
            ConfigType.STRING,
            STRING,
            _HIGH,
            "What a body is: string (UTF-8), bytes or json.",
            OneOf(STRING, BYTES, JSON),
        ),
        ConfigKey("http.key.header", ConfigType.STRING, "", _MEDIUM, "The header that gives the key."),
        ConfigKey(
            "http.key.field",
            ConfigType.STRING,
            "",
            _MEDIUM,
            "The field of a JSON body that gives the key, such as order.id.",
        ),
        ConfigKey(
            "http.headers",
            ConfigType.LIST,
            ["*"],
            _MEDIUM,
            "Headers that records keep; * is all but those of the connection, logins and cookies.",
        ),
        ConfigKey("http.path.header", ConfigType.STRING, "", _LOW, "A header of records that gets the path."),
        ConfigKey("http.user", ConfigType.STRING, "", _MEDIUM, "The user that senders have to be."),
        ConfigKey("http.password", ConfigType.PASSWORD, None, _MEDIUM, "Their password."),
        ConfigKey("http.token", ConfigType.PASSWORD, None, _MEDIUM, "A bearer token that is good as well."),
        ConfigKey(_TLS[0], ConfigType.STRING, "", _MEDIUM, "A file with the certificate (PEM): TLS is on."),
        ConfigKey(_TLS[1], ConfigType.STRING, "", _MEDIUM, "A file with its key, if that is not in it."),
        ConfigKey(
            _TLS[2], ConfigType.STRING, "", _MEDIUM, "Senders need a certificate that one of it signed."
        ),
        ConfigKey(
            "http.body.max.bytes", ConfigType.INT, 1024 * 1024, _MEDIUM, "A larger body is refused.", Range(1)
        ),
        ConfigKey(
            "http.queue.max.records", ConfigType.INT, 1000, _MEDIUM, "Requests that wait at a time.", Range(1)
        ),
        ConfigKey(
            "http.queue.max.bytes",
            ConfigType.INT,
            64 * 1024 * 1024,
            _MEDIUM,
            "Bytes of all bodies and headers that wait.",
            Range(1),
        ),
        ConfigKey("http.connections.max", ConfigType.INT, 2000, _MEDIUM, "Senders at once.", Range(1)),
        ConfigKey(
            "http.answer.timeout.ms", ConfigType.INT, 30_000, _MEDIUM, "How long a request waits.", Range(1)
        ),
        ConfigKey("batch.size", ConfigType.INT, 2000, _LOW, "Records at a time.", Range(1)),
    )

    def make_task(self) -> SourceTask:
        return HttpReceiverTask()

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        try:
            parsed = cls.config.parse(given)
        except ConfigException:
            return {}  # the definition tells which setting it is
        try:
            topics = parse_topics(parsed["http.topics"])
        except ConfigException as error:
            return {"http.topics": [error.message]}
        return {name: [text] for name, text in _problems(parsed, bool(topics)).items()}

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        return []  # it talks to nobody: senders come


def _problems(parsed: Mapping[str, Any], has_topics: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    if not parsed["topic"] and not has_topics:
        found["topic"] = "Either topic or http.topics has to be set"
    if parsed["http.key.field"]:
        if parsed["http.key.header"]:
            found["http.key.field"] = "The key comes from a header already"
        elif parsed["http.value.format"] != JSON:
            found["http.key.field"] = "Only JSON has fields. Next: http.value.format=json"
    if parsed["http.user"] and (parsed["http.password"] is None or not parsed["http.password"].secret):
        found["http.password"] = "A user needs a password"
    if not parsed[_TLS[0]] and (parsed[_TLS[1]] or parsed[_TLS[2]]):
        found[_TLS[0]] = "TLS needs a certificate"
    if parsed["http.body.max.bytes"] > parsed["http.queue.max.bytes"]:
        found["http.queue.max.bytes"] = "There has to be room for one body of http.body.max.bytes"
    return found


class HttpReceiverTask(SourceTask):
    waits = True

    def start(self, settings: Mapping[str, str], context: SourceTaskContext) -> None:
        # What serves HTTP is needed where a task runs, not where connectors are listed.
        from moldau.connect.connectors.http.listening import Receiving
        from moldau.web.server import ListenerOptions

        parsed = HttpReceiver.config.parse(settings)
        self._most: int = parsed["batch.size"]
        host, port = parsed["http.host"], parsed["http.port"]
        where = ListenerOptions(host=host, port=port, tls=_tls(parsed), stop_timeout_seconds=5, is_open=True)
        try:
            self._receiving = Receiving(where, _shape(parsed), _login(parsed), _bounds(parsed))
        except ssl.SSLError as error:
            raise ConnectException(f"The certificate cannot be used: {error}") from None
        except OSError as error:
            raise ConnectException(f"Nothing can be received at {host}:{port}: {error}") from None
        #: Where it listens, also where the port was 0.
        self.port: int = self._receiving.port

    def stop(self) -> None:
        receiving = getattr(self, "_receiving", None)
        if receiving is not None:
            receiving.close()

    def poll(self) -> Sequence[SourceRecord]:
        return self._receiving.take(self._most, _POLL_SECONDS)

    def written(self) -> None:
        self._receiving.written()


def _shape(parsed: Mapping[str, Any]) -> Shape:
    field = parsed["http.key.field"]
    return Shape(
        parse_topics(parsed["http.topics"]),
        parsed["topic"],
        parsed["http.value.format"],
        parsed["http.key.header"].lower(),
        tuple(field.split(".")) if field else (),
        frozenset(name.lower() for name in parsed["http.headers"]),
        parsed["http.path.header"],
    )


def _login(parsed: Mapping[str, Any]) -> "Login":
    from moldau.connect.connectors.http.listening import Login

    password, token = parsed["http.password"], parsed["http.token"]
    return Login(
        parsed["http.user"],
        "" if password is None else password.secret,
        "" if token is None else token.secret,
    )


def _bounds(parsed: Mapping[str, Any]) -> "Bounds":
    from moldau.connect.connectors.http.listening import Bounds

    return Bounds(
        parsed["http.body.max.bytes"],
        parsed["http.queue.max.records"],
        parsed["http.queue.max.bytes"],
        parsed["http.connections.max"],
        parsed["http.answer.timeout.ms"],
    )


def _tls(parsed: Mapping[str, Any]) -> "TlsOptions | None":
    from moldau.web.tls import TlsOptions

    certificate, key, authorities = (Path(parsed[name]) if parsed[name] else None for name in _TLS)
    return None if certificate is None else TlsOptions(certificate, key, authorities)
