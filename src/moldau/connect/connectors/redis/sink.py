"""RedisSink: the value of each key, as Redis keeps it; a tombstone deletes.

Invariant: writing a batch again comes to the same; keys and values are texts or bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import Range
from moldau.connect.connector import SinkConnector, SinkTask, SinkTaskContext
from moldau.connect.connectors.http.client import body_of
from moldau.connect.connectors.libraries import library
from moldau.connect.data.schema import Schema
from moldau.connect.data.text import java_text
from moldau.connect.errors import ConnectException, DataException, RetriableException
from moldau.connect.records import SinkRecord

_EXTRA = "connect-redis"
_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM


class RedisSink(SinkConnector):
    class_name = "com.github.jcustenborder.kafka.connect.redis.RedisSinkConnector"
    task_class_name = "com.github.jcustenborder.kafka.connect.redis.RedisSinkTask"
    config = ConfigDef(
        ConfigKey("redis.hosts", ConfigType.STRING, "localhost:6379", _HIGH, "host:port of the server."),
        ConfigKey("redis.password", ConfigType.PASSWORD, None, _MEDIUM, "The password."),
        ConfigKey("redis.database", ConfigType.INT, 0, _MEDIUM, "The number of the database.", Range(0)),
        ConfigKey("redis.ssl.enabled", ConfigType.BOOLEAN, False, _MEDIUM, "Whether to use TLS."),
        ConfigKey("redis.key.prefix", ConfigType.STRING, "", _MEDIUM, "Before keys, such as ${topic}:."),
        ConfigKey("redis.ttl.seconds", ConfigType.LONG, 0, _MEDIUM, "How long values stay; 0: for ever."),
    )

    def make_task(self) -> SinkTask:
        return RedisSinkTask()

    @classmethod
    def hosts(cls, given: Mapping[str, str]) -> list[str]:
        return [given.get("redis.hosts", "localhost:6379").rpartition(":")[0]]

    @classmethod
    def check(cls, given: Mapping[str, str]) -> dict[str, list[str]]:
        host, _, port = given.get("redis.hosts", "localhost:6379").strip().rpartition(":")
        good = bool(host) and port.isdigit() and "," not in host
        return {} if good else {"redis.hosts": ["One server is written as host:port"]}


class RedisSinkTask(SinkTask):
    def start(self, settings: Mapping[str, str], context: SinkTaskContext) -> None:
        parsed = RedisSink.config.parse(settings)
        self._context = context
        self._prefix: str = parsed["redis.key.prefix"]
        self._ttl: int = parsed["redis.ttl.seconds"]
        self._redis = library("redis", _EXTRA)
        host, _, port = parsed["redis.hosts"].rpartition(":")
        password = parsed["redis.password"]
        self._client: Any = self._redis.Redis(
            host=host,
            port=int(port),
            db=parsed["redis.database"],
            password=None if password is None else password.secret,
            ssl=parsed["redis.ssl.enabled"],
            socket_timeout=30,
            socket_connect_timeout=20,
        )

    def stop(self) -> None:
        client = getattr(self, "_client", None)
        if client is not None:
            client.close()

    def put(self, records: Sequence[SinkRecord]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for record in records:
            if record.key is None:
                self._context.report(record, DataException("The record has no key"))
                continue
            prefix = self._prefix.replace("${topic}", record.topic).encode()
            key = prefix + _raw(record.key_schema, record.key)
            if record.value is None:
                pipeline.delete(key)
            else:
                pipeline.set(key, _raw(record.value_schema, record.value), ex=self._ttl or None)
        errors = self._redis.exceptions
        try:
            pipeline.execute()
        except (errors.ConnectionError, errors.TimeoutError, errors.BusyLoadingError) as error:
            raise RetriableException(f"redis cannot be reached: {error}") from None
        except errors.RedisError as error:
            text = str(error)
            passes = "LOADING" in text or "READONLY" in text or "OOM" in text or "MASTERDOWN" in text
            raise (RetriableException if passes else ConnectException)(f"redis says: {text}") from None


def _raw(schema: Schema | None, value: object) -> bytes:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return java_text(value).encode()
    return body_of(schema, value)
