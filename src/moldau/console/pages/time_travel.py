"""A topic as it was: its table of keys at a time, forks of it, and snapshots as a file.

Invariant: looking back reads up to a bound and says where it ended; only the fork changes something, and
makes a topic of its own. A topic of which something is masked has no snapshot: that would show it.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from moldau.base.names import TopicPartition
from moldau.base.times import HOW_TO_WRITE
from moldau.client.admin.descriptions import EARLIEST, READ_COMMITTED
from moldau.client.snapshots.files import open_writer
from moldau.client.snapshots.snapshots import take_snapshot
from moldau.client.snapshots.time_travel import ends_as_of, fork_topic, table_as_of
from moldau.client.transport.cluster import Topic
from moldau.console.call import REFUSALS, ConsoleCall, Refused, WrongInput, changing, refused
from moldau.console.decoding import shown
from moldau.console.markup.html import Content, number_cell, number_head, p, table, tag
from moldau.console.markup.layout import card, labelled, refusal, text_input
from moldau.console.markup.words import count, moment, size
from moldau.console.naming import name_problem
from moldau.console.pages.topic import found_topic, frame
from moldau.console.records import ShownRecord, newest, prepare
from moldau.console.typed import time_ms
from moldau.console.workspace import Workspace
from moldau.web.pages import download

_SHOWN = 200
_PREVIEW = 400
#: A table is made by reading everything up to the time; more than this is work for a program.
_MOST_OFFSETS = 500_000
_MOST_BYTES = 256 * 1024 * 1024
#: Of one snapshot.
_SNAPSHOT_BYTES, _SNAPSHOT_SECONDS = 64 * 1024 * 1024, 30.0


def _time(text: str, now_ms: int) -> int:
    try:
        return time_ms(text, now_ms)
    except ValueError:
        raise WrongInput(f"{text[:40]!r} is no time: give {HOW_TO_WRITE}.") from None


async def time_travel(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    topic = await found_topic(call)
    text = (call.text("at") or "").strip()
    found: Content = None
    if text:
        partitions = [TopicPartition(topic.name, each.index) for each in topic.partitions]
        found = await _as_of(call, topic.name, partitions, _time(text, workspace.clock.now_ms()))
    return _page(call, topic, text, found, None)


def _page(call: ConsoleCall, topic: Topic, text: str, found: Content, why: Refused | None) -> Any:
    given = why.given if why is not None else {}
    here = f"{call.here('topics', topic.name)}/time-travel"
    form = tag(
        "form",
        labelled(
            "As it was at", text_input("at", text, placeholder="10m ago, 2026-01-31T12:00:00Z", class_="mono")
        ),
        tag("button", "Show the last records", name="show", value="records", class_="quiet"),
        tag("button", "Show the table of keys", name="show", value="table", class_="quiet"),
        method="get",
        action=here,
        class_="card toolbar",
    )
    fork = None
    if not call.read_only:
        fork = card(
            "Fork it",
            p(
                "A new topic with the records up to that time, at the same offsets. It takes no room: "
                "segments are shared. Apache Kafka cannot do it.",
                class_="note",
            ),
            tag(
                "form",
                call.token(),
                labelled(
                    "Name of the fork",
                    text_input("name", given.get("name", f"{topic.name}-fork"), required=True),
                ),
                labelled("Up to", text_input("at", given.get("at", text), placeholder="now")),
                tag("button", "Fork the topic"),
                method="post",
                action=here,
                class_="toolbar",
            ),
        )
    return call.show(
        f"Time travel of {topic.name}",
        *frame(call, topic, "Time travel"),
        refusal(why.words if why is not None else None),
        form,
        found,
        tag("div", fork, _snapshot_card(call, topic, text), class_="columns"),
        active="topics",
        status=why.status if why is not None else 200,
    )


async def _as_of(call: ConsoleCall, topic: str, partitions: list[TopicPartition], moment_ms: int) -> Content:
    workspace = await call.workspace()
    ends = await ends_as_of(await workspace.cluster(), partitions, moment_ms, isolation_level=READ_COMMITTED)
    title = f"As of {moment(moment_ms)} UTC"
    if call.text("show") == "table":
        begins = await workspace.offsets(partitions, EARLIEST)
        sizes = await workspace.sizes()
        offsets = sum(max(0, ends[each] - begins.get(each, 0)) for each in partitions)
        if offsets > _MOST_OFFSETS or sum(sizes.get(each, 0) for each in partitions) > _MOST_BYTES:
            words = (
                f"The topic has more than {count(_MOST_OFFSETS)} records or {size(_MOST_BYTES)}: "
                f"'moldau consume {topic} --as-of … --table' makes its table."
            )
            return card(title, p(words, class_="note"))
        return await _table(call, topic, title, partitions, moment_ms)
    records = (await newest(workspace, call.console.masks.of(topic), ends, 50)).records
    rows = [
        [
            number_cell(each.partition),
            number_cell(str(each.offset)),
            tag("td", moment(each.timestamp), class_="time"),
            _key(each),
            _value(each),
        ]
        for each in records
    ]
    columns = [number_head("Partition"), number_head("Offset"), "Time (UTC)", "Key", "Value"]
    return card(title, table(columns, rows, empty="Nothing was there yet.", class_="records"))


def _key(record: ShownRecord) -> Content:
    return tag("td", tag("span", shown(record.key.value)[:_PREVIEW], class_="preview"), class_="key")


def _value(record: ShownRecord) -> Content:
    return tag("td", tag("span", shown(record.value.value)[:_PREVIEW], class_="preview"), class_="value")


async def _table(
    call: ConsoleCall, topic: str, title: str, partitions: list[TopicPartition], moment_ms: int
) -> Content:
    """The last value of every key at that time."""
    workspace = await call.workspace()
    masks = call.console.masks.of(topic)
    found = await table_as_of(await workspace.cluster(), partitions, moment_ms)
    some = found.rows[:_SHOWN]
    prepared = await workspace.blocking(lambda: [prepare(workspace, masks, each) for each in some])
    rows = [
        [
            _key(each),
            _value(each),
            tag("td", moment(each.timestamp), class_="time"),
        ]
        for each in prepared
    ]
    remarks = []
    if not found.is_complete:
        remarks.append("Older records were deleted or compacted: keys that only they had are missing.")
    if found.without_key:
        remarks.append(f"{count(found.without_key)} records have no key, and no place in a table.")
    if len(found.rows) > _SHOWN:
        remarks.append(f"{count(len(found.rows) - _SHOWN)} more keys are not shown.")
    return card(
        f"{title}: {count(len(found.rows))} keys",
        [p(each, class_="note") for each in remarks],
        table(["Key", "Value", "Written (UTC)"], rows, empty="No key was there.", class_="records"),
    )


def _snapshot_card(call: ConsoleCall, topic: Topic, text: str) -> Content:
    if call.console.masks.of(topic.name).hides_anything:
        return None
    words = (
        "A file with the records up to that time, their offsets, checksums and the topic's configs. "
        "'moldau topics restore' makes a topic of it again."
    )
    return card(
        "Take a snapshot",
        p(words, class_="note"),
        tag(
            "form",
            labelled("Up to", text_input("at", text, placeholder="now")),
            tag("button", "Download the snapshot", class_="quiet"),
            method="get",
            action=f"{call.here('topics', topic.name)}/time-travel/snapshot",
            class_="toolbar",
        ),
    )


async def snapshot(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    topic = await found_topic(call)
    if call.console.masks.of(topic.name).hides_anything:
        raise WrongInput("Something in this topic is hidden, so there is no snapshot of it here.")
    text = (call.text("at") or "").strip()
    moment_ms = _time(text, workspace.clock.now_ms()) if text else None
    async with call.console.downloads:
        data = await workspace.blocking(lambda: asyncio.run(_taken(workspace, topic.name, moment_ms)))
    call.note("snapshot", f"{topic.name} at {text or 'now'}: {size(len(data))}")
    return download(data, "application/zstd", f"{topic.name}.tar.zst")


async def _taken(workspace: Workspace, topic: str, moment_ms: int | None) -> bytes:
    """In a loop and with connections of its own: packing and writing keep nobody else waiting."""
    read = 0

    def grown(more: int) -> None:
        nonlocal read
        read += more
        if read > _SNAPSHOT_BYTES:
            raise WrongInput(
                f"It has more than {size(_SNAPSHOT_BYTES)}: 'moldau topics snapshot' takes larger ones."
            )

    with TemporaryDirectory(prefix="moldau-snapshot-") as folder:
        path = Path(folder) / "snapshot.tar.zst"
        try:
            async with asyncio.timeout(_SNAPSHOT_SECONDS), await workspace.own_cluster() as cluster:
                now = workspace.clock.now_ms()
                writer = open_writer(str(path))
                await take_snapshot(
                    cluster, topic, writer, now_ms=now, timestamp_ms=moment_ms, progress=grown
                )
        except TimeoutError:
            raise WrongInput(
                f"It took longer than {_SNAPSHOT_SECONDS:.0f} seconds: 'moldau topics snapshot' has no bound."
            ) from None
        return path.read_bytes()


async def fork(call: ConsoleCall) -> Any:
    given = await call.form()
    topic = await found_topic(call)
    try:
        return await _fork(call, topic, given)
    except REFUSALS as error:
        return _page(call, topic, "", None, refused(given, error))


async def _fork(call: ConsoleCall, topic: Topic, given: dict[str, str]) -> Any:
    workspace = await call.workspace()
    name = given.get("name", "").strip()
    snapshot = await workspace.snapshot(fresh=True)
    settings = call.console.settings
    problem = name_problem(name, snapshot.topics, settings.topic_pattern, settings.topic_rule)
    if problem is not None:
        raise WrongInput(problem)
    if not call.console.masks.hide_as_much(name, topic.name):
        raise WrongInput("Something in this topic is hidden, and would be seen in a fork with that name.")
    text = given.get("at", "").strip()
    moment_ms = _time(text, workspace.clock.now_ms()) if text else None
    work = fork_topic(await workspace.cluster(), topic.name, name, timestamp_ms=moment_ms)
    await changing(call, "fork topic", f"{topic.name} to {name} at {text or 'now'}", work)
    return call.done(f"{name} is a fork of {topic.name}.", call.here("topics", name))
