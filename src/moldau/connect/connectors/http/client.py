"""A small client of HTTP services for sinks.

Invariant: a connection is used for one request at a time; redirects are not followed, because they could lead
where a connector may not go; a service that is away is a RetriableException.
"""

import base64
import http.client
import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from moldau.connect.converters.json import JsonConverter
from moldau.connect.data.schema import Schema
from moldau.connect.errors import ConfigException, RetriableException

MAX_ANSWER_BYTES = 64 * 1024 * 1024
_JSON = JsonConverter({"schemas.enable": "false"})


class Answer(NamedTuple):
    status: int
    body: bytes

    @property
    def passes(self) -> bool:
        """Whether the same request may work later."""
        return self.status >= 500 or self.status in (408, 425, 429)

    def json(self) -> Any:
        return json.loads(self.body)


class HttpClient:
    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        user: str | None = None,
        password: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._parts = urlsplit(check_url(url))
        self._headers = dict(headers or {})
        self._timeout = timeout
        if user:
            token = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        self._connection: http.client.HTTPConnection | None = None

    def send(self, method: str, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        """``path`` is put behind the URL's own."""
        target = (self._parts.path.rstrip("/") + path) or "/"
        if self._parts.query:
            target += ("&" if "?" in target else "?") + self._parts.query
        for last in (False, True):
            fresh = self._connection is None
            try:
                return self._once(method, target, body, {**self._headers, **(headers or {})})
            except (http.client.HTTPException, OSError) as error:
                self.close()
                if fresh or last:
                    said = f"{self._parts.hostname} cannot be reached: {type(error).__name__} {error}"
                    raise RetriableException(said) from error
        raise AssertionError("unreachable")

    def _once(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        if self._connection is None:
            secure = self._parts.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            self._connection = kind(self._parts.hostname or "", self._parts.port, timeout=self._timeout)
        self._connection.request(method, target, body, dict(headers))
        answer = self._connection.getresponse()
        found = answer.read(MAX_ANSWER_BYTES)
        if answer.will_close or not answer.isclosed():
            self.close()
        return Answer(answer.status, found)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def check_url(url: str) -> str:
    parts = urlsplit(url.strip())
    try:
        port_is_good = parts.port is None or parts.port > 0
    except ValueError:
        port_is_good = False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_good:
        raise ConfigException("A URL is written as http://host:port/path or https://host/path")
    if parts.username or parts.password:
        raise ConfigException("A URL with a password in it is shown to everybody: use the settings for that")
    return url.strip()


def host_of(url: str) -> str:
    return urlsplit(check_url(url)).hostname or ""


def body_of(schema: Schema | None, value: object) -> bytes:
    """Texts and bytes as they are, other values as JSON."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return _JSON.from_connect("", schema, value) or b"null"
