"""What waits between requests and the worker."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from moldau.connect.connectors.http.inbox import Inbox, NotWritten, Unknown
from moldau.connect.records import SourceRecord
from tests.shared.waiting import turns

LONG = 60.0


def record(value: str) -> SourceRecord:
    return SourceRecord(topic="t", value=value)


async def sent(inbox: Inbox, value: str, size: int = 1, timeout: float = LONG) -> str:
    try:
        with inbox.room(size) as room:
            await inbox.write(record(value), room, timeout)
    except (NotWritten, Unknown) as error:
        return type(error).__name__
    return "written"


def run(story: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(story())


def values(records: list[SourceRecord]) -> list[object]:
    return [each.value for each in records]


def test_a_request_is_answered_when_its_record_is_written() -> None:
    async def story() -> None:
        inbox = Inbox(10, 100)
        waiting = [asyncio.create_task(sent(inbox, name)) for name in "abc"]
        assert values(await inbox.take(2, LONG)) == ["a", "b"]
        await turns(5)
        assert not any(task.done() for task in waiting)
        inbox.written()
        assert [await task for task in waiting[:2]] == ["written", "written"]
        assert not waiting[2].done()
        assert values(await inbox.take(2, LONG)) == ["c"]
        inbox.written()
        assert await waiting[2] == "written"
        assert await inbox.take(2, 0) == []

    run(story)


def test_records_and_bytes_have_bounds() -> None:
    async def story() -> None:
        inbox = Inbox(2, 10)
        first = asyncio.create_task(sent(inbox, "a", 6))
        await turns(2)
        assert await sent(inbox, "too large", 5) == "NotWritten"
        second = asyncio.create_task(sent(inbox, "b", 4))
        await turns(2)
        assert await sent(inbox, "too many", 0) == "NotWritten"
        assert values(await inbox.take(9, LONG)) == ["a", "b"]
        assert await sent(inbox, "still too many", 0) == "NotWritten"
        inbox.written()
        assert [await first, await second] == ["written", "written"]
        third = asyncio.create_task(sent(inbox, "c", 10))
        assert values(await inbox.take(9, LONG)) == ["c"]
        inbox.written()
        assert await third == "written"

    run(story)


def test_a_record_that_was_not_given_out_in_time_never_is() -> None:
    async def story() -> None:
        inbox = Inbox(1, 10)
        assert await sent(inbox, "late", timeout=0) == "NotWritten"
        assert await inbox.take(9, 0) == []
        task = asyncio.create_task(sent(inbox, "given up"))
        await turns(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await inbox.take(9, 0) == []

    run(story)


def test_what_was_given_out_takes_up_room_until_it_is_written() -> None:
    async def story() -> None:
        inbox = Inbox(1, 10)
        task = asyncio.create_task(sent(inbox, "slow", timeout=0.001))
        await turns(1)
        assert values(await inbox.take(9, LONG)) == ["slow"]
        assert await task == "Unknown"
        assert await sent(inbox, "next") == "NotWritten"
        inbox.written()
        last = asyncio.create_task(sent(inbox, "next"))
        assert values(await inbox.take(9, LONG)) == ["next"]
        inbox.written()
        assert await last == "written"

    run(story)


def test_an_end_answers_everybody() -> None:
    async def story() -> None:
        inbox = Inbox(10, 100)
        given = asyncio.create_task(sent(inbox, "a"))
        assert values(await inbox.take(1, LONG)) == ["a"]
        waiting = asyncio.create_task(sent(inbox, "b"))
        await turns(2)
        inbox.close()
        assert [await given, await waiting] == ["Unknown", "NotWritten"]
        assert await sent(inbox, "c") == "NotWritten"

    run(story)
