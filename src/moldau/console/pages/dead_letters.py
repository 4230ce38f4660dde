"""Dead letters: records that a connector or a pipeline could not handle, why, and "try again".

Connect's headers (``__connect.errors.…``) and those of our pipelines (``moldau.error`` …) are understood.

Invariant: a record is sent to the topic that it came from, byte by byte, without the headers that told of the
failure; it stays among the dead letters. Where something of the topic is masked nothing is sent.
"""

from dataclasses import dataclass
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.descriptions import READ_COMMITTED
from moldau.client.consumer.fetched import ConsumerRecord
from moldau.console.call import ConsoleCall, WrongInput, changing
from moldau.console.markup.html import Content, Markup, link, number_head, p, query, span, table, tag
from moldau.console.markup.layout import card, hidden
from moldau.console.markup.words import count
from moldau.console.pages.produce import send
from moldau.console.pages.topic import found_topic, frame
from moldau.console.records import ends_of, newest, one
from moldau.console.workspace import Workspace
from moldau.protocol.errors import ErrorCode, KafkaError

_SHOWN = 100
_CONNECT = "__connect.errors."
_OURS = ("moldau.error", "moldau.topic", "moldau.partition", "moldau.offset")


@dataclass(frozen=True, slots=True)
class Failure:
    """What the headers of a dead letter tell."""

    topic: str
    partition: str
    offset: str
    who: str
    why: str


def failure_of(headers: dict[str, str]) -> Failure | None:
    """None for a record that is no dead letter. Pure."""
    if f"{_CONNECT}topic" in headers:
        name = headers.get(f"{_CONNECT}exception.class.name", "").rpartition(".")[2]
        message = headers.get(f"{_CONNECT}exception.message", "")
        connector = headers.get(f"{_CONNECT}connector.name", "")
        stage = headers.get(f"{_CONNECT}stage", "")
        return Failure(
            headers[f"{_CONNECT}topic"],
            headers.get(f"{_CONNECT}partition", ""),
            headers.get(f"{_CONNECT}offset", ""),
            f"{connector}, {stage}" if stage else connector,
            f"{name}: {message}" if name and message else name or message,
        )
    if "moldau.topic" in headers:
        return Failure(
            headers["moldau.topic"],
            headers.get("moldau.partition", ""),
            headers.get("moldau.offset", ""),
            "pipeline",
            headers.get("moldau.error", ""),
        )
    return None


def is_about_the_failure(name: str) -> bool:
    return name.startswith(_CONNECT) or name in _OURS


async def dead_letters(call: ConsoleCall) -> Any:
    workspace = await call.workspace()
    topic = await found_topic(call)
    masks = call.console.masks.of(topic.name)
    partitions = [TopicPartition(topic.name, each.index) for each in topic.partitions]
    found = await newest(workspace, masks, await ends_of(workspace, partitions, READ_COMMITTED), _SHOWN)
    rows: list[list[Content]] = []
    for record in found.records:
        failure = failure_of(dict(record.headers))
        if failure is None:
            continue
        place = f"{record.partition}@{record.offset}"
        address = query(
            f"{call.here('topics', topic.name)}/messages/one",
            partition=str(record.partition),
            offset=str(record.offset),
        )
        rows.append(
            [
                tag("td", _tick(place), class_="number"),
                link(address, place),
                f"{failure.topic} {failure.partition}@{failure.offset}".rstrip("@ "),
                failure.who,
                failure.why[:500],
            ]
        )
    return call.show(
        f"Dead letters of {topic.name}",
        *frame(call, topic, "Dead letters"),
        _list(call, rows),
        active="topics",
    )


def _tick(place: str) -> Markup:
    return tag("input", type="checkbox", name=f"r{place}", value="1", aria_label=place, checked="checked")


def _list(call: ConsoleCall, rows: list[list[Content]]) -> Content:
    columns = [number_head(""), "Record", "Came from", "Who could not", "Why"]
    if not rows:
        words = f"None of the newest {_SHOWN} records tells of a failure in its headers."
        return card("", p(words, class_="empty"))
    listed = table(columns, rows, empty="")
    if call.read_only:
        return card(f"{count(len(rows))} of the newest records", listed)
    return card(
        f"{count(len(rows))} of the newest records",
        tag(
            "form",
            call.token(),
            hidden("action", "again"),
            listed,
            p(
                tag("button", "Try again"),
                span(
                    "sends what is ticked to the topics that it came from; it stays here as well.",
                    class_="beside",
                ),
                class_="note",
            ),
            method="post",
            action=f"{call.here('topics', call.parameters['topic'])}/dead-letters",
        ),
    )


async def try_again(call: ConsoleCall) -> Any:
    given = await call.form()
    workspace = await call.workspace()
    topic = await found_topic(call)
    masks = call.console.masks.of(topic.name)
    if masks.hides_anything:
        raise WrongInput("Something in this topic is hidden, so its records cannot be sent on.")
    places = [_place(topic.name, name[1:]) for name in given if name.startswith("r") and "@" in name]
    if not places:
        raise WrongInput("Nothing is ticked.")
    sent, refused = 0, []
    for partition, offset in sorted(places):
        found = await one(workspace, masks, partition, offset)
        if found is None:
            refused.append(f"{partition}@{offset} is not there any more")
            continue
        try:
            sending = _send(workspace, dict(found[0].headers), found[1])
            await changing(call, "try again", f"{partition}@{offset}", sending)
            sent += 1
        except KafkaError as error:
            refused.append(f"{partition}@{offset}: {error.message or error.code.name}")
    if refused:
        raise WrongInput(f"{count(sent)} were sent; not {'; '.join(refused[:5])}.")
    here = f"{call.here('topics', topic.name)}/dead-letters"
    return call.done(f"{count(sent)} records were sent again.", here)


def _place(topic: str, text: str) -> tuple[TopicPartition, int]:
    partition, _, offset = text.partition("@")
    if not (partition.isdecimal() and offset.isdecimal() and len(text) < 40):
        raise WrongInput(f"{text!r} is no place of a record.")
    return TopicPartition(topic, int(partition)), int(offset)


async def _send(workspace: Workspace, told: dict[str, str], record: ConsumerRecord) -> None:
    failure = failure_of(told)
    if failure is None:
        raise KafkaError(ErrorCode.INVALID_RECORD, "it does not say where it came from")
    await (await workspace.cluster()).topic(failure.topic, refresh=True)
    headers = [(name, data) for name, data in record.headers if not is_about_the_failure(name)]
    await send(workspace, failure.topic, record.value, record.key, None, headers)
