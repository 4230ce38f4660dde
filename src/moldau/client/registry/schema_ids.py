"""Which schemas does a registry have under a subject? Asked in threads, remembered for the event loop.

What the registry has is remembered: an id never comes to mean another schema. What it does not have is
remembered for a moment only, so that a producer who registers its schema need not wait long. That a version
was deleted is seen when the broker starts again.

Invariant: the event loop never waits for HTTP, and whatever is remembered has a bound.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

from moldau.base.clock import Clock
from moldau.client.registry.schema_registry import RegistryClient, RegistryError
from moldau.protocol.errors import ErrorCode, KafkaError

_THREADS = 4
_TIMEOUT_MS = 3_000
_MAX_REMEMBERED = 100_000
#: Schema not found, and what other registries answer.
_NOT_FOUND = 404


class RegistrySchemaIds:
    """``schema`` is an id, or a guid in its written form."""

    def __init__(self, url: str, user_info: str | None, clock: Clock, missing_ttl_seconds: float) -> None:
        user, _, password = (user_info or "").partition(":")
        try:
            self._client = RegistryClient(
                url, user=user or None, password=password or None, timeout_ms=_TIMEOUT_MS
            )
        except RegistryError as error:
            message = f"confluent.schema.registry.url of the broker is wrong: {error.message}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message) from None
        self._clock = clock
        self._missing_ttl_seconds = missing_ttl_seconds
        self._found: set[tuple[str, int | str]] = set()
        #: Until when a schema counts as missing.
        self._missing: dict[tuple[str, int | str], float] = {}
        self._asked: dict[tuple[str, int | str], asyncio.Future[bool]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="moldau-schemas")

    def known(self, subject: str, schema: int | str) -> bool | None:
        if (subject, schema) in self._found:
            return True
        until = self._missing.get((subject, schema))
        return False if until is not None and self._clock.monotonic() < until else None

    async def ask(self, subject: str, schema: int | str) -> bool:
        """Requests that ask for the same share one question."""
        key = subject, schema
        asked = self._asked.get(key)
        if asked is None:
            loop = asyncio.get_running_loop()
            asked = loop.run_in_executor(self._threads, self._look_up, subject, schema)
            self._asked[key] = asked
            asked.add_done_callback(lambda done: self._answered(key, done))
        return await asyncio.shield(asked)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _answered(self, key: tuple[str, int | str], asked: "asyncio.Future[bool]") -> None:
        del self._asked[key]
        if asked.cancelled() or asked.exception() is not None:
            return
        if asked.result():
            if len(self._found) >= _MAX_REMEMBERED:
                self._found.clear()
            self._missing.pop(key, None)
            self._found.add(key)
        else:
            if len(self._missing) >= _MAX_REMEMBERED:
                self._missing.clear()
            self._missing[key] = self._clock.monotonic() + self._missing_ttl_seconds

    def _look_up(self, subject: str, schema: int | str) -> bool:
        """In a thread of the pool."""
        try:
            if isinstance(schema, int):
                return self._has(subject, schema)
            ids = self._client.call("GET", f"/schemas/guids/{quote(schema)}/ids")
            return any(self._has(subject, int(each["id"])) for each in ids)
        except RegistryError as error:
            if error.status == _NOT_FOUND:
                return False
            message = f"The schema {schema} of {subject} could not be checked: {error.message}"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, message) from None

    def _has(self, subject: str, schema_id: int) -> bool:
        query = quote(subject, safe="")
        versions = self._client.call("GET", f"/schemas/ids/{schema_id}/versions?subject={query}")
        return any(each["subject"] == subject for each in versions)
