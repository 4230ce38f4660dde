"""One consumer instance of v2: what it subscribes to or is assigned, what it reads, what it commits.

``records`` gives what is there and waits for more only as long as it was told. With ``redelivery`` an answer
is kept until its client acknowledges it (``ack``, or a commit), and given again to a client that asks
without.

Invariant: one request reads at a time. A position moves when its record is given out; with redelivery, what
is committed moves when the answer is acknowledged.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import raise_errors
from moldau.client.consumer.consumer import BEGINNING, END, Start
from moldau.client.consumer.fetched import ConsumerRecord
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.protocol.errors import KafkaError
from moldau.rest import problems
from moldau.rest.consumers.reader import Reader, Ready
from moldau.rest.consumers.settings import InstanceSettings
from moldau.rest.consumers.subscription import Subscription
from moldau.rest.schema_formats import NotPrepared
from moldau.rest.sessions import Session
from moldau.web.problems import Problem

_AUTO_COMMIT_SECONDS = 5.0
#: When there are records, this long for those that are just arriving, so that one answer has all of them.
_LINGER_SECONDS = 0.02
#: After so many records other requests have a turn.
_RECORDS_IN_A_TURN = 200
_NOTHING = ("", 0, 0)


class Shown(NamedTuple):
    """The JSON of records that follow each other, with commas between them."""

    text: str
    #: How many.
    records: int
    #: Bytes of their keys and values.
    size: int


class Render(NamedTuple):
    """From a record to its JSON text; a ``Problem`` where it cannot be read in the format of the instance.

    ``text`` never waits: where a schema has to be asked for it raises ``NotPrepared``, for ``prepare``.
    """

    text: Callable[[ConsumerRecord], str]
    prepare: Callable[[NotPrepared, ConsumerRecord], Awaitable[None]]
    #: Where the format has a quicker way for many: the same texts of the first records at hand, as long as
    #: they fit into so many bytes and can be read.
    texts: Callable[[Ready, int], Shown] | None = None


class Answer(NamedTuple):
    """Records as JSON, several with commas between them or one in each text; with redelivery the number that
    acknowledges them.
    """

    records: list[str]
    number: int | None = None


class ConsumerInstance:
    def __init__(
        self, session: Session, group_id: str, name: str, settings: InstanceSettings, render: Render
    ) -> None:
        self.session = session
        self.group_id = group_id
        self.name = name
        self.settings = settings
        self.used_at = asyncio.get_running_loop().time()
        #: Requests that use the instance now.
        self.busy = 0
        self.following = False
        self.subscription: Subscription | None = None
        self._render = render
        self._reader: Reader | None = None
        self._changing = asyncio.Lock()
        self._reading = asyncio.Lock()
        self._commit_at = self.used_at + _AUTO_COMMIT_SECONDS
        self._last: Answer | None = None
        self._answers = 0

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """While a request uses it, and for a while after that, an instance does not end by itself."""
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1
            self.used_at = asyncio.get_running_loop().time()

    async def close(self) -> None:
        """Commits (where that is automatic) and leaves the group."""
        async with self._changing:
            await self._leave(commit=True)

    # What to read.

    async def subscribe(self, wanted: Subscription) -> None:
        async with self._changing:
            if self._reader is not None and self.subscription is None:
                raise problems.illegal_state(
                    "Subscription to topics, partitions and pattern are mutually exclusive"
                )
            if self._reader is not None:
                if wanted == self.subscription:
                    return
                if wanted.pattern is not None or (
                    self.subscription and self.subscription.pattern is not None
                ):
                    raise problems.already_subscribed()
                await self._leave(commit=True)
            self._reader = Reader.subscribed(
                self.session.cluster, self.group_id, wanted.topics(), self.settings
            )
            self.subscription = wanted

    async def unsubscribe(self) -> None:
        async with self._changing:
            await self._leave(commit=False)

    async def assign(self, partitions: Sequence[TopicPartition]) -> None:
        async with self._changing:
            if self.subscription is not None:
                raise problems.illegal_state(
                    "Subscription to topics, partitions and pattern are mutually exclusive"
                )
            await self._leave(commit=True)
            if partitions:
                self._reader = await Reader.assigned(
                    self.session.cluster, self.group_id, partitions, self.settings
                )

    @property
    def assignment(self) -> list[TopicPartition]:
        return [] if self._reader is None else self._reader.partitions

    # Places.

    async def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        await self._seek({partition: Start(offset=offset) for partition, offset in offsets.items()})

    async def seek_to_beginning(self, partitions: Sequence[TopicPartition]) -> None:
        await self._seek(dict.fromkeys(partitions, BEGINNING))

    async def seek_to_end(self, partitions: Sequence[TopicPartition]) -> None:
        await self._seek(dict.fromkeys(partitions, END))

    async def _seek(self, places: Mapping[TopicPartition, Start]) -> None:
        async with self._changing:
            reader = self._reader_here()
            for partition in places:
                if partition not in reader.positions:
                    raise problems.illegal_state(f"No current assignment for partition {partition}")
            self._acknowledge()
            await reader.seek(places)

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset] | None) -> None:
        """Commits these offsets; None commits all that the client has got, and acknowledges it."""
        if offsets is None:
            self._acknowledge()
        reader = self._reader
        if reader is not None:
            await reader.commit(offsets)
        elif offsets:
            raise_errors(await Groups(self.session.cluster).commit(self.group_id, dict(offsets)))

    async def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        found = await Groups(self.session.cluster).committed(self.group_id, partitions)
        raise_errors(found)
        return {partition: each for partition, each in found.items() if isinstance(each, CommittedOffset)}

    # Reading.

    async def records(self, timeout_ms: int | None, max_bytes: int, ack: int | None = None) -> Answer:
        """What has come, or comes in time; nothing where nothing does. The caller says ``in_use``."""
        if self.following:
            raise problems.illegal_state("The records of this consumer are being followed by another request")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + (self.settings.timeout_ms if timeout_ms is None else timeout_ms) / 1000
        if self.busy <= 1:  # nobody else reads: a timeout would cost more than the rest
            await self._reading.acquire()
        else:
            try:
                async with asyncio.timeout_at(max(deadline, loop.time() + _LINGER_SECONDS)):
                    await self._reading.acquire()
            except TimeoutError:
                return Answer([])
        try:
            return await self._next_answer(deadline, max_bytes, ack)
        finally:
            self._reading.release()

    async def _next_answer(self, deadline: float, max_bytes: int, ack: int | None) -> Answer:
        reader = self._reader_here()
        if self._last is not None:
            if ack != self._last.number:
                return self._last
            self._acknowledge()
        await self._commit_by_the_clock(reader)
        if self.settings.redelivery:
            reader.hold()
        found = await self._gather(reader, deadline, max_bytes, self._render)
        if not self.settings.redelivery or not found:
            return Answer(found)
        self._answers += 1
        self._last = Answer(found, self._answers)
        return self._last

    async def follow(self, max_bytes: int, render: Render) -> AsyncGenerator[list[str], None]:
        """Records for ever, a few at a time; an empty list when nothing came for a while."""
        if self.following:
            raise problems.illegal_state("The records of this consumer are being followed by another request")
        self.following = True
        try:
            async with self._reading:
                self._acknowledge()
                while True:
                    reader = self._reader_here()
                    await self._commit_by_the_clock(reader)
                    deadline = asyncio.get_running_loop().time() + self.settings.quiet_ms / 1000
                    yield await self._gather(reader, deadline, max_bytes, render)
        finally:
            self.following = False

    async def _gather(self, reader: Reader, deadline: float, max_bytes: int, render: Render) -> list[str]:
        loop = asyncio.get_running_loop()
        found: list[str] = []
        size, turn = 0, 0
        while reader is self._reader:
            at_hand = reader.at_hand
            if at_hand is None:
                if not await self._record_comes(reader, deadline, bool(found), size):
                    return found
                continue
            text, count, more = render.texts(at_hand, max_bytes - size) if render.texts else _NOTHING
            if not count:  # one record alone: it is too large, or cannot be read, or there is no quicker way
                more = at_hand.first_size()
                if found and size + more > max_bytes:
                    return found
                record = at_hand.first()
                try:
                    text, count = render.text(record), 1
                except NotPrepared as missing:
                    if found:
                        return found  # what is there is not kept waiting for a registry
                    await render.prepare(missing, record)
                    continue
                except Problem:
                    if found:
                        return found  # it stays where it is, and the next request hears of it
                    raise
            reader.take(count)
            found.append(text)
            size += more
            turn += count
            if turn >= _RECORDS_IN_A_TURN:
                turn = 0
                await asyncio.sleep(0)
                if loop.time() >= deadline:
                    return found
        return found

    async def _record_comes(self, reader: Reader, deadline: float, found: bool, size: int) -> bool:
        """Waits for the next record; False when there is no reason to wait for one any longer."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                if reader.look():
                    return True
            except KafkaError:
                if found:
                    return False
                raise
            enough = found and size >= self.settings.min_bytes
            limit = min(deadline, loop.time() + _LINGER_SECONDS) if enough else deadline
            try:
                async with asyncio.timeout_at(limit):
                    await reader.arrived.wait()
            except TimeoutError:
                return False
            if reader is not self._reader:
                return False

    # Inside.

    def _reader_here(self) -> Reader:
        if self._reader is None:
            raise problems.illegal_state(
                "Consumer is not subscribed to any topics or assigned any partitions"
            )
        return self._reader

    def _acknowledge(self) -> None:
        self._last = None
        if self._reader is not None:
            self._reader.release()

    async def _commit_by_the_clock(self, reader: Reader) -> None:
        """What a client got before it asks again counts as done."""
        now = asyncio.get_running_loop().time()
        if not self.settings.auto_commit or now < self._commit_at:
            return
        self._commit_at = now + _AUTO_COMMIT_SECONDS
        try:
            await reader.commit()
        except KafkaError as error:
            problem = problems.from_kafka(error, v2=True)
            if not error.retriable and problem.status != 409:
                raise

    async def _leave(self, *, commit: bool) -> None:
        reader, self._reader = self._reader, None
        self.subscription, self._last = None, None
        if reader is None:
            return
        reader.arrived.set()  # whoever waits for its records sees that it has gone
        try:
            if commit and self.settings.auto_commit:
                await reader.commit()
        except KafkaError as error:
            if not error.retriable and problems.from_kafka(error).status not in (403, 409):
                raise
        finally:
            await reader.close()
