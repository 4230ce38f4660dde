"""Streams of events for the messages page: live tails and searches with their progress.

Invariant: a stream ends when the browser has gone, when the console stops, and after a bounded time; there
are at most so many at once. Its rows are made by the same code as those of the page, escaped likewise.
"""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from moldau.client.admin.descriptions import EARLIEST
from moldau.console.advice import in_words
from moldau.console.call import MAX_STREAMS, ConsoleCall
from moldau.console.markup.words import count, looked_at
from moldau.console.pages.messages import Asked, asked, record_row, search_on, starts_of
from moldau.console.records import ShownRecord, level_of, search, tail
from moldau.protocol.errors import KafkaError
from moldau.web.pages import events

_SEARCH_SECONDS = 60.0
_SEARCH_MOST = 500
_TAIL_SECONDS = 30 * 60.0
_TAIL_AT_ONCE = 100
_TAIL_PAUSE_MS = 300


async def search_stream(call: ConsoleCall) -> Any:
    wanted = await asked(call)
    wanted.wanted()
    return events(_counted(call, _search(call, wanted)))


async def tail_stream(call: ConsoleCall) -> Any:
    wanted = await asked(call)
    wanted.wanted()
    return events(_counted(call, _tail(call, wanted)))


async def _counted(
    call: ConsoleCall, source: AsyncIterator[tuple[str, str]]
) -> AsyncIterator[tuple[str, str]]:
    """Bounds the number of streams, and turns an error into a last word."""
    if call.console.streams >= MAX_STREAMS:
        yield "end", "Too many searches and live pages at the same time: close some, and load this one again."
        return
    call.console.streams += 1
    try:
        async for name, text in source:
            yield name, text
    except KafkaError as error:
        yield "end", in_words(error)
    finally:
        call.console.streams -= 1


def _rows(call: ConsoleCall, records: list[ShownRecord]) -> str:
    return "".join(record_row(call, record) for record in records)


async def _search(call: ConsoleCall, wanted: Asked) -> AsyncIterator[tuple[str, str]]:
    workspace = await call.workspace()
    starts = await starts_of(call, workspace, wanted)
    if starts is None:
        starts = await workspace.offsets(wanted.partitions, EARLIEST)
    masks = call.console.masks.of(wanted.topic.name)
    found = search(
        workspace,
        masks,
        starts,
        wanted.wanted(),
        limit=_SEARCH_MOST,
        seconds=_SEARCH_SECONDS,
        level=level_of(wanted.everything),
    )
    async with aclosing(found) as steps:  # type: ignore[type-var]
        async for records, progress in steps:
            if records:
                yield "rows", _rows(call, records)
            words = looked_at(progress.scanned, progress.matched)
            if progress.ended or call.console.stopping.is_set():
                yield "progress", json.dumps({"words": words, "share": progress.share})
                if progress.done < progress.total and (on := search_on(call, wanted, progress.positions)):
                    yield "more", on
                yield "end", f"{words}; {progress.ended or 'the console stops'}."
                return
            yield "progress", json.dumps({"words": words, "share": progress.share})


async def _tail(call: ConsoleCall, wanted: Asked) -> AsyncIterator[tuple[str, str]]:
    workspace = await call.workspace()
    masks = call.console.masks.of(wanted.topic.name)
    began = workspace.clock.monotonic()
    came = 0
    found = tail(
        workspace,
        masks,
        wanted.partitions,
        wanted.wanted(),
        at_once=_TAIL_AT_ONCE,
        pause_ms=_TAIL_PAUSE_MS,
        level=level_of(wanted.everything),
    )
    yield "progress", json.dumps({"words": "Live: waiting for new records …", "share": 0})
    async with aclosing(found) as steps:  # type: ignore[type-var]
        async for records, number in steps:
            came += number
            if records:
                yield "rows", _rows(call, records)
            words = f"Live: {count(came)} records came" if came else "Live: waiting for new records …"
            yield "progress", json.dumps({"words": words, "share": 0})
            if call.console.stopping.is_set():
                yield "end", "The console stops."
                return
            if workspace.clock.monotonic() - began > _TAIL_SECONDS:
                yield "end", "Half an hour is over: load the page again to go on."
                return
