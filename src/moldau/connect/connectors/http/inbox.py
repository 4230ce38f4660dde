"""Records between requests that wait for an answer and the worker that writes: bounded, and each with its
outcome.

Invariant: all of it happens on one event loop. A request that is told "not written" is right: its record was
never given out. What is kept stays within the bounds, from before a body is read until its request is
answered and its record is written.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from moldau.connect.records import SourceRecord


class NotWritten(Exception):
    """The record is not in its topic and will not come there: it may be sent again."""


class Unknown(Exception):
    """The record was given out, and nobody knows what became of it."""


@dataclass(slots=True, eq=False)
class Room:
    """What one request takes up."""

    size: int
    #: Whether the record still takes it up when the request is answered.
    outlives_request: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    record: SourceRecord
    room: Room
    outcome: "asyncio.Future[None]"


class Inbox:
    def __init__(self, max_records: int, max_bytes: int) -> None:
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._records = 0
        self._bytes = 0
        self._waiting: deque[_Entry] = deque()
        #: Given out, and not yet known to be written.
        self._given: list[_Entry] = []
        self._came = asyncio.Event()
        self._closed = False

    @contextmanager
    def room(self, size: int) -> Iterator[Room]:
        """Room for a record of so many bytes, as long as its request takes."""
        if self._closed:
            raise NotWritten("The connector is stopping")
        if self._records >= self._max_records or self._bytes + size > self._max_bytes:
            raise NotWritten("More is waiting to be written than there is room for")
        self._records += 1
        self._bytes += size
        room = Room(size)
        try:
            yield room
        finally:
            if not room.outlives_request:
                self._leave(room)

    def _leave(self, room: Room) -> None:
        self._records -= 1
        self._bytes -= room.size

    async def write(self, record: SourceRecord, room: Room, timeout_seconds: float) -> None:
        """Returns when the record is written; else NotWritten or Unknown."""
        if self._closed:
            raise NotWritten("The connector is stopping")
        entry = _Entry(record, room, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        self._came.set()
        try:
            async with asyncio.timeout(timeout_seconds):
                await entry.outcome
        except TimeoutError:
            if self._withdraw(entry):
                raise NotWritten("The record could not be written in time") from None
            raise Unknown("Nobody knows yet whether the record is written") from None
        except asyncio.CancelledError:
            self._withdraw(entry)
            raise

    async def take(self, most: int, timeout_seconds: float) -> list[SourceRecord]:
        """Gives out what waits, at once or as soon as something comes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._came.wait()
        taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
        if not self._waiting:
            self._came.clear()
        self._given += taken
        return [entry.record for entry in taken]

    def written(self) -> None:
        """All that was given out is in its topics."""
        given, self._given = self._given, []
        for entry in given:
            if entry.room.outlives_request:
                self._leave(entry.room)
            elif not entry.outcome.done():
                entry.outcome.set_result(None)

    def close(self) -> None:
        """Nothing more is taken, and whoever waits is answered."""
        self._closed = True
        for entry in self._waiting:
            _fail(entry, NotWritten("The connector is stopping"))
        for entry in self._given:
            _fail(entry, Unknown("The connector stopped before it was known whether the record is written"))
        self._waiting.clear()
        self._given.clear()

    def _withdraw(self, entry: _Entry) -> bool:
        """Whether the record was still here."""
        try:
            self._waiting.remove(entry)
        except ValueError:
            entry.room.outlives_request = entry in self._given
            return False
        return True


def _fail(entry: _Entry, error: Exception) -> None:
    if not entry.outcome.done():
        entry.outcome.set_exception(error)
