"""One topic: its partitions, its configs with what they mean, and the changes that can be made to it.

Invariant: a topic is deleted, and its records are, only by somebody who has typed its name.
"""

import asyncio
import re
from typing import Any

from moldau.base.names import TopicPartition, format_uuid
from moldau.client.admin.admin import raise_errors
from moldau.client.admin.descriptions import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    ResourceType,
)
from moldau.client.groups.descriptions import CommittedOffset, GroupListing
from moldau.client.transport.cluster import Topic
from moldau.console.call import ConsoleCall, Refused, WrongInput, changing, refused
from moldau.console.markup.html import (
    Content,
    Markup,
    code,
    link,
    number_cell,
    number_head,
    p,
    query,
    table,
    tag,
)
from moldau.console.markup.layout import (
    badge,
    card,
    figure,
    heading,
    hidden,
    labelled,
    live,
    pager,
    refusal,
    tabs,
    text_input,
)
from moldau.console.markup.plots import bar, wide_plot
from moldau.console.markup.words import count, duration, rate, size
from moldau.console.pages.topics import whole_number
from moldau.console.workspace import Workspace
from moldau.protocol.errors import ErrorCode, KafkaError

#: Partitions, or groups, of one page.
_PAGE = 200
#: What topics of dead letters are usually called.
_DEAD_LETTERS = re.compile(r"dead.?letter|dlq|error", re.IGNORECASE)
_FROM = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "set here",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "set at the broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "set for all brokers",
    ConfigSource.STATIC_BROKER_CONFIG: "the broker's file",
    ConfigSource.DEFAULT_CONFIG: "default",
}


async def found_topic(call: ConsoleCall) -> Topic:
    """The topic of the address."""
    name = call.parameters["topic"]
    topic = (await (await call.workspace()).snapshot()).topics.get(name)
    if topic is None:
        topic = (await (await call.workspace()).snapshot(fresh=True)).topics.get(name)
    if topic is None or topic.error_code:
        code_ = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else topic.error_code
        raise KafkaError(code_, f"There is no topic {name}")
    return topic


def frame(call: ConsoleCall, topic: Topic, active: str, *beside: Content) -> list[Content]:
    """What stands above every page of a topic."""
    here = call.here("topics", topic.name)
    entries = [
        ("Messages", f"{here}/messages"),
        ("Partitions", here),
        ("Configs", f"{here}/configs"),
        ("Groups", f"{here}/groups"),
        ("Time travel", f"{here}/time-travel"),
    ]
    if _DEAD_LETTERS.search(topic.name) or active == "Dead letters":
        entries.append(("Dead letters", f"{here}/dead-letters"))
    if not call.read_only:
        entries.insert(1, ("Produce", f"{here}/produce"))
    trail = [link(call.here("topics"), "Topics", class_="trail"), " / ", topic.name]
    return [heading(trail, *beside), tabs(entries, active)]


async def topic_page(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    topic = await found_topic(call)
    partitions = [TopicPartition(topic.name, each.index) for each in topic.partitions]
    bounds = await workspace.bounds(partitions)
    sizes = await workspace.sizes()
    line = workspace.history.topic_rates.get(topic.name)
    records = sum(end - begin for begin, end in bounds.values())
    return call.show(
        topic.name,
        *frame(call, topic, "Partitions"),
        live(
            "topic",
            tag(
                "div",
                figure("Records", count(records)),
                figure("Size", size(sum(sizes.get(each, 0) for each in partitions)), "of one replica"),
                figure("Rate", rate(workspace.history.rate(topic.name)), "records in"),
                figure("Partitions", count(len(partitions))),
                class_="figures",
            ),
            card(
                "Records a second",
                wide_plot(line.points if line is not None else (), "Records a second", unit="/s"),
            ),
            card("Partitions", _partitions(call, topic, bounds, sizes, call.number("page", 0))),
        ),
        p("Topic id ", code(format_uuid(topic.topic_id)), class_="note"),
        None if call.read_only else _changes(call, topic),
        active="topics",
    )


def _partitions(
    call: ConsoleCall,
    topic: Topic,
    bounds: dict[TopicPartition, tuple[int, int]],
    sizes: dict[TopicPartition, int],
    page: int,
) -> Content:
    names = [TopicPartition(topic.name, each.index) for each in topic.partitions]
    largest = max((sizes.get(each, 0) for each in names), default=0) or 1
    here = f"{call.here('topics', topic.name)}/messages"
    page = min(max(page, 0), max(0, (len(names) - 1) // _PAGE))
    rows = []
    for each in topic.partitions[page * _PAGE : (page + 1) * _PAGE]:
        name = TopicPartition(topic.name, each.index)
        begin, end = bounds.get(name, (0, 0))
        held = sizes.get(name, -1)
        whole = len(each.isr) == len(each.replicas)
        rows.append(
            [
                number_cell(each.index),
                number_cell(each.leader_id if each.leader_id >= 0 else badge("none", "bad")),
                ", ".join(map(str, each.replicas)),
                badge(", ".join(map(str, each.isr)), "good" if whole else "warn"),
                number_cell(link(query(here, partition=each.index, from_="earliest"), count(begin))),
                number_cell(link(query(here, partition=each.index), count(end))),
                number_cell(count(end - begin)),
                number_cell(size(held)),
                bar(max(held, 0) / largest, size(held)),
            ]
        )
    columns = [
        *(number_head("Partition"), number_head("Leader"), "Replicas", "In sync", number_head("First")),
        *(number_head("Next"), number_head("Records"), number_head("Size"), ""),
    ]
    return [
        table(columns, rows, empty="It has no partition."),
        pager(call.here("topics", topic.name), page, _PAGE, len(names)),
    ]


def _changes(call: ConsoleCall, topic: Topic) -> Markup:
    here = call.here("topics", topic.name)
    more = tag(
        "form",
        call.token(),
        labelled(
            "Partitions",
            text_input("partitions", str(len(topic.partitions) + 1), inputmode="numeric"),
            "Keys may go to other partitions than before; their order is kept only within one.",
        ),
        tag("button", "Add partitions", class_="quiet"),
        method="post",
        action=f"{here}/partitions",
    )
    empty = tag(
        "form",
        call.token(),
        labelled("Type the topic’s name to delete its records", text_input("name", placeholder=topic.name)),
        tag("button", "Delete all records", class_="danger"),
        method="post",
        action=f"{here}/empty",
    )
    gone = tag(
        "form",
        call.token(),
        labelled("Type the topic’s name to delete it", text_input("name", placeholder=topic.name)),
        tag("button", "Delete the topic", class_="danger"),
        method="post",
        action=f"{here}/delete",
    )
    return tag(
        "details",
        tag("summary", "Change or delete this topic"),
        tag("div", more, empty, gone, class_="columns three"),
        class_="card",
    )


async def add_partitions(call: ConsoleCall) -> Any:
    given = await call.form()
    topic = await found_topic(call)
    total = whole_number(given.get("partitions", ""), "The number of partitions", default=0)
    admin = await (await call.workspace()).admin()

    async def work() -> None:
        raise_errors(await admin.create_partitions({topic.name: NewPartitions(total)}))

    await changing(call, "add partitions", f"{topic.name}: {total}", work())
    return call.done(f"{topic.name} has {total} partitions now.", call.here("topics", topic.name))


def _check_typed(given: dict[str, str], topic: Topic) -> None:
    if given.get("name", "").strip() != topic.name:
        raise WrongInput(f"Nothing was deleted: the name that was typed is not {topic.name!r}.")


async def delete_topic(call: ConsoleCall) -> Any:
    given = await call.form()
    topic = await found_topic(call)
    _check_typed(given, topic)
    admin = await (await call.workspace()).admin()

    async def work() -> None:
        raise_errors(await admin.delete_topics([topic.name]))

    await changing(call, "delete topic", topic.name, work())
    return call.done(f"Topic {topic.name} is deleted.", call.here("topics"))


async def empty_topic(call: ConsoleCall) -> Any:
    given = await call.form()
    topic = await found_topic(call)
    _check_typed(given, topic)
    admin = await (await call.workspace()).admin()
    everything = {TopicPartition(topic.name, each.index): -1 for each in topic.partitions}

    async def work() -> None:
        raise_errors(await admin.delete_records(everything))

    await changing(call, "delete records", topic.name, work())
    return call.done(f"The records of {topic.name} are deleted.", call.here("topics", topic.name))


# --- configs ----------------------------------------------------------------------------------------


async def topic_configs(call: ConsoleCall) -> Any:
    return await _configs_page(call, await found_topic(call), call.text("edit") or "", None)


async def _configs_page(call: ConsoleCall, topic: Topic, chosen: str, why: Refused | None) -> Any:
    workspace = await call.workspace()
    typed = None if why is None else why.given.get("value", "")
    resource = ConfigResource(ResourceType.TOPIC, topic.name)
    described = await (await workspace.admin()).describe_configs(
        [resource], include_synonyms=True, include_documentation=True
    )
    raise_errors(described)
    entries = described[resource]
    assert not isinstance(entries, KafkaError)
    ordered = sorted(entries, key=lambda each: (each.source != ConfigSource.DYNAMIC_TOPIC_CONFIG, each.name))
    rows = [
        [
            [code(entry.name), tag("small", entry.documentation or "", class_="meaning")],
            [_value(entry), _edit(call, topic, entry, typed, open_=entry.name == chosen)],
            badge(
                _FROM.get(entry.source, entry.source.name.lower()),
                "good" if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG else "",
            ),
            _default(entry),
        ]
        for entry in ordered
    ]
    return call.show(
        f"Configs of {topic.name}",
        *frame(call, topic, "Configs"),
        refusal(why.words if why is not None else None),
        card(
            "",
            table(
                ["Config", "Value", "From", "Default"],
                rows,
                empty="The cluster shows no configs.",
                class_="configs",
            ),
        ),
        active="topics",
        status=why.status if why is not None else 200,
    )


def _value(entry: ConfigEntry) -> Content:
    if entry.sensitive:
        return badge("hidden")
    shown: list[Content] = [code(entry.value if entry.value not in (None, "") else "–")]
    if entry.value is not None and entry.value.lstrip("-").isdecimal() and len(entry.value) < 19:
        number = int(entry.value)
        if entry.name.endswith(".ms") and abs(number) >= 1000:
            shown.append(tag("small", f" {duration(number)}" if number < 1 << 62 else " for ever"))
        elif entry.name.endswith(".bytes") and number >= 1024:
            shown.append(tag("small", f" {size(number)}"))
    return shown


def _default(entry: ConfigEntry) -> Content:
    """The value that it would have if it were not set here."""
    others = [each for each in entry.synonyms if each.source != ConfigSource.DYNAMIC_TOPIC_CONFIG]
    return code(others[0].value or "–") if others else ""


def _edit(call: ConsoleCall, topic: Topic, entry: ConfigEntry, typed: str | None, *, open_: bool) -> Content:
    if call.read_only or entry.read_only:
        return None
    is_set = entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG
    value = "" if entry.sensitive else entry.value or ""
    if open_ and typed is not None:
        value = typed
    return tag(
        "details",
        tag("summary", "change"),
        tag(
            "form",
            call.token(),
            hidden("config", entry.name),
            text_input("value", value, aria_label=f"Value of {entry.name}"),
            tag("button", "Set", name="action", value="set"),
            tag("button", "Back to default", name="action", value="reset", class_="quiet")
            if is_set
            else None,
            method="post",
            action=f"{call.here('topics', topic.name)}/configs",
            class_="inline",
        ),
        open=open_,
        class_="edit",
    )


async def change_config(call: ConsoleCall) -> Any:
    given = await call.form()
    topic = await found_topic(call)
    name = given.get("config", "")
    reset = given.get("action") == "reset"
    operation = ConfigOperation.DELETE if reset else ConfigOperation.SET
    change = ConfigChange(name, operation, None if reset else given.get("value", "").strip())
    admin = await (await call.workspace()).admin()

    async def work() -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic.name)
        raise_errors(await admin.incremental_alter_configs({resource: [change]}))

    what = f"{topic.name}: {name}" + ("" if reset else f"={change.value}")
    try:
        await changing(call, "change config", what, work())
    except KafkaError as error:
        return await _configs_page(call, topic, name, refused(given, error))
    words = f"{name} is back at its default." if reset else f"{name} is {change.value} now."
    return call.done(words, f"{call.here('topics', topic.name)}/configs")


# --- groups -----------------------------------------------------------------------------------------


async def topic_groups(call: ConsoleCall) -> Any:
    """Which groups read the topic, and how far each is."""
    workspace = await call.workspace()
    topic = await found_topic(call)
    listed = await workspace.listed_groups()
    page = min(max(call.number("page", 0), 0), max(0, (len(listed) - 1) // _PAGE))
    rows = await _readers(call, workspace, topic, listed[page * _PAGE : (page + 1) * _PAGE])
    more = len(listed) > _PAGE
    columns = ["Group", "State", number_head("Partitions"), number_head("Behind"), ""]
    return call.show(
        f"Groups of {topic.name}",
        *frame(call, topic, "Groups"),
        live(
            "readers",
            p("Each page looks at some of all groups, and shows those that read the topic.", class_="note")
            if more
            else None,
            card("", table(columns, rows, empty="No group has committed an offset of this topic.")),
            pager(f"{call.here('topics', topic.name)}/groups", page, _PAGE, len(listed)),
        ),
        active="topics",
    )


async def _readers(
    call: ConsoleCall, workspace: Workspace, topic: Topic, listed: list[GroupListing]
) -> list[list[Content]]:
    partitions = [TopicPartition(topic.name, each.index) for each in topic.partitions]
    ends = await workspace.offsets(partitions, -1)
    groups = await workspace.groups()

    async def committed(group: str) -> dict[TopicPartition, int]:
        try:
            found = await groups.committed(group, partitions)
        except KafkaError:
            return {}
        return {tp: each.offset for tp, each in found.items() if isinstance(each, CommittedOffset)}

    offsets = await asyncio.gather(*(committed(each.group_id) for each in listed))
    rows: list[list[Content]] = []
    for listing, found in zip(listed, offsets, strict=True):
        if not found:
            continue
        behind = sum(max(0, ends.get(tp, offset) - offset) for tp, offset in found.items())
        here = call.here("topics", topic.name)
        unread = link(
            query(f"{here}/messages", unread_by=listing.group_id), "what it has not read yet", class_="whole"
        )
        rows.append(
            [
                link(query(call.here("groups", "view"), group=listing.group_id), listing.group_id),
                badge(listing.state, "good" if listing.state == "Stable" else ""),
                number_cell(len(found)),
                number_cell(count(behind)),
                unread if behind else "",
            ]
        )
    return rows
