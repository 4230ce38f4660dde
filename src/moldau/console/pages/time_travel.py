"""A topic as it was: its table of keys at a time, and forks of it.

Invariant: looking back reads up to a bound and says where it ended; only the fork changes something, and
makes a topic of its own.
"""

from typing import Any

from moldau.base.names import TopicPartition
from moldau.base.times import HOW_TO_WRITE
from moldau.client.admin.descriptions import EARLIEST, READ_COMMITTED
from moldau.client.snapshots.time_travel import ends_as_of, fork_topic, table_as_of
from moldau.console.call import ConsoleCall, WrongInput, changing
from moldau.console.decoding import shown
from moldau.console.markup.html import Content, number_cell, number_head, p, table, tag
from moldau.console.markup.layout import card, labelled, text_input
from moldau.console.markup.words import count, moment
from moldau.console.naming import name_problem
from moldau.console.pages.topic import found_topic, frame
from moldau.console.records import newest, prepare
from moldau.console.typed import time_ms

_SHOWN = 200
#: A table is made by reading everything up to the time; more than this is work for a program.
_MOST_OFFSETS = 500_000


def _time(text: str, now_ms: int) -> int:
    try:
        return time_ms(text, now_ms)
    except ValueError:
        raise WrongInput(f"{text[:40]!r} is no time: give {HOW_TO_WRITE}.") from None


async def time_travel(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    topic = await found_topic(call)
    text = (call.text("at") or "").strip()
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
    found: Content = None
    if text:
        found = await _as_of(
            call,
            topic.name,
            [TopicPartition(topic.name, each.index) for each in topic.partitions],
            _time(text, workspace.clock.now_ms()),
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
                labelled("Name of the fork", text_input("name", f"{topic.name}-fork", required=True)),
                labelled("Up to", text_input("at", text, placeholder="now")),
                tag("button", "Fork the topic"),
                method="post",
                action=here,
                class_="toolbar",
            ),
        )
    return call.show(
        f"Time travel of {topic.name}", *frame(call, topic, "Time travel"), form, found, fork, active="topics"
    )


async def _as_of(call: ConsoleCall, topic: str, partitions: list[TopicPartition], moment_ms: int) -> Content:
    workspace = await call.workspace()
    ends = await ends_as_of(await workspace.cluster(), partitions, moment_ms, isolation_level=READ_COMMITTED)
    title = f"As of {moment(moment_ms)} UTC"
    if call.text("show") == "table":
        begins = await workspace.offsets(partitions, EARLIEST)
        if sum(max(0, ends[each] - begins.get(each, 0)) for each in partitions) > _MOST_OFFSETS:
            words = (
                f"The topic had more than {count(_MOST_OFFSETS)} records then: "
                f"'moldau consume {topic} --as-of … --table' makes its table."
            )
            return card(title, p(words, class_="note"))
        return await _table(call, topic, title, partitions, moment_ms)
    records = (await newest(workspace, call.console.masks.of(topic), ends, 50)).records
    rows = [
        [
            number_cell(each.partition),
            number_cell(str(each.offset)),
            moment(each.timestamp),
            shown(each.key.value),
            tag("span", shown(each.value.value)[:400], class_="preview"),
        ]
        for each in records
    ]
    columns = [number_head("Partition"), number_head("Offset"), "Time (UTC)", "Key", "Value"]
    return card(title, table(columns, rows, empty="Nothing was there yet.", class_="records"))


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
            shown(each.key.value),
            tag("span", shown(each.value.value)[:400], class_="preview"),
            moment(each.timestamp),
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


async def fork(call: ConsoleCall) -> Any:
    given = await call.form()
    workspace = await call.workspace()
    topic = await found_topic(call)
    name = given.get("name", "").strip()
    snapshot = await workspace.snapshot(fresh=True)
    settings = call.console.settings
    problem = name_problem(name, snapshot.topics, settings.topic_pattern, settings.topic_rule)
    if problem is not None:
        raise WrongInput(problem)
    text = given.get("at", "").strip()
    moment_ms = _time(text, workspace.clock.now_ms()) if text else None
    work = fork_topic(await workspace.cluster(), topic.name, name, timestamp_ms=moment_ms)
    await changing(call, "fork topic", f"{topic.name} to {name} at {text or 'now'}", work)
    return call.done(f"{name} is a fork of {topic.name}.", call.here("topics", name))
