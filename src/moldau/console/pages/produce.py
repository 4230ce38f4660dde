"""Writing a record by hand, and sending one again.

Invariant: the form is shown again with what was typed when something is wrong with it; a record is sent once
for each press of the button. A record of a topic with masks is not sent on: what is hidden would be seen
elsewhere.
"""

import json
from typing import Any, NamedTuple

from moldau.base.names import TopicPartition
from moldau.client.producer.producer import Producer
from moldau.client.registry.schema_registry import RegisteredSchema, RegistryError
from moldau.client.transport.cluster import Topic
from moldau.console.advice import in_words, registry_step
from moldau.console.call import ConsoleCall, WrongInput, changing
from moldau.console.markup.html import Markup, p, query, tag
from moldau.console.markup.layout import labelled, select, text_input
from moldau.console.pages.topic import found_topic, frame
from moldau.console.pages.topics import whole_number
from moldau.console.records import one
from moldau.console.workspace import Workspace
from moldau.protocol.errors import KafkaError

_FORMS = (
    ("text", "text, as it is"),
    ("json", "JSON, checked and made short"),
    ("schema", "by the latest schema of the registry"),
    ("null", "null (a tombstone)"),
)


class TopicPlace(NamedTuple):
    partition: int
    offset: int


async def produce_page(call: ConsoleCall) -> Any:
    topic = await found_topic(call)
    return _shown(call, topic, {}, None)


def _shown(call: ConsoleCall, topic: Topic, given: dict[str, str], problem: str | None) -> Any:
    return call.show(
        f"Produce to {topic.name}",
        *frame(call, topic, "Produce"),
        _form(call, topic, given, problem),
        active="topics",
        status=400 if problem else 200,
    )


def _form(call: ConsoleCall, topic: Topic, given: dict[str, str], problem: str | None) -> Markup:
    partitions = [
        ("", "by the key"),
        *((str(each.index), f"partition {each.index}") for each in topic.partitions[:1000]),
    ]
    return tag(
        "form",
        call.token(),
        p(problem, class_="message bad", role="alert") if problem else None,
        labelled("Key", text_input("key", given.get("key", ""), class_="mono", placeholder="none")),
        labelled("Value is", select("form", _FORMS, given.get("form", "text"))),
        labelled("Value", tag("textarea", given.get("value", ""), name="value", rows=10, spellcheck="false")),
        labelled(
            "Headers",
            tag(
                "textarea",
                given.get("headers", ""),
                name="headers",
                rows=3,
                placeholder="trace=42",
                spellcheck="false",
            ),
            "One name=value in a line.",
        ),
        labelled("Partition", select("partition", partitions, given.get("partition", ""))),
        tag("div", tag("button", "Send the record"), class_="actions"),
        method="post",
        action=f"{call.here('topics', topic.name)}/produce",
        class_="card form",
    )


async def produce(call: ConsoleCall) -> Any:
    given = await call.form()
    workspace = await call.workspace()
    topic = await found_topic(call)
    try:
        value = await _value(workspace, topic.name, given)
        headers = _headers(given.get("headers", ""))
        chosen = given.get("partition", "")
        partition = None if not chosen else whole_number(chosen, "The partition", least=0)
        key = given.get("key", "").encode() or None
    except WrongInput as error:
        return _shown(call, topic, given, str(error))
    except RegistryError as error:
        return _shown(call, topic, given, f"{error.message} {registry_step(error)}")
    try:
        sent = await changing(
            call, "produce", topic.name, send(workspace, topic.name, value, key, partition, headers)
        )
    except KafkaError as error:
        return _shown(call, topic, given, in_words(error))
    return call.done(
        f"Sent: partition {sent.partition}, offset {sent.offset}.",
        query(
            f"{call.here('topics', topic.name)}/messages/one",
            partition=str(sent.partition),
            offset=str(sent.offset),
        ),
    )


async def send(
    workspace: Workspace,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    partition: int | None,
    headers: list[tuple[str, bytes | None]],
) -> TopicPlace:
    options: dict[str, Any] = {
        "linger_ms": 0,
        "allow_auto_create_topics": False,
        "delivery_timeout_ms": 20_000,
        "max_block_ms": 10_000,
    }
    async with await Producer.open(await workspace.cluster(), **options) as producer:
        sent = await (await producer.send(topic, value, key, partition, headers))
        return TopicPlace(sent.partition, sent.offset)


def _headers(text: str) -> list[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise WrongInput(f"A header has the form name=value: {line!r}.")
        found.append((name.strip(), value.strip().encode()))
    return found


async def _value(workspace: Workspace, topic: str, given: dict[str, str]) -> bytes | None:
    text = given.get("value", "").replace("\r\n", "\n")
    match given.get("form"):
        case "null":
            return None
        case "json":
            return _short(_json(text))
        case "schema":
            value = _json(text)
            return await workspace.blocking(lambda: _by_schema(workspace, topic, value))
        case _:
            return text.encode("utf-8", "replace")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongInput(f"The value is no JSON: {error}.") from None


def _short(value: Any) -> bytes:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        raise WrongInput("The value is no JSON: it has a number that JSON cannot say.") from None
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can say and UTF-8 cannot
        return json.dumps(value, separators=(",", ":")).encode()


def _by_schema(workspace: Workspace, topic: str, value: Any) -> bytes | None:
    """The value as the latest schema of the topic's subject has it."""
    from moldau.serde.errors import SerdeError
    from moldau.serde.options import WriterOptions

    registry = workspace.registry
    if registry is None:
        raise WrongInput("The console knows no schema registry: start it with --registry.")
    latest = registry.version(f"{topic}-value")
    options = WriterOptions(auto_register=False, use_latest_version=True, strict=True)
    try:
        return _serializer(latest, workspace, options).serialize(topic, value)  # type: ignore[no-any-return]
    except (SerdeError, ImportError) as error:
        raise WrongInput(f"The value does not fit the schema: {error}") from None


def _serializer(latest: RegisteredSchema, workspace: Workspace, options: Any) -> Any:
    assert workspace.registry is not None
    match latest.schema_type:
        case "AVRO":
            from moldau.serde.avro import AvroSerializer

            return AvroSerializer(
                workspace.registry, latest.text, references=latest.references, options=options
            )
        case "JSON":
            from moldau.serde.json_schema import JsonSerializer

            return JsonSerializer(
                workspace.registry, latest.text, references=latest.references, options=options
            )
        case _:
            raise WrongInput(
                "Protobuf values cannot be written here: use 'moldau kafka-protobuf-console-producer'."
            )


async def send_again(call: ConsoleCall) -> Any:
    given = await call.form()
    workspace = await call.workspace()
    topic = await found_topic(call)
    masks = call.console.masks.of(topic.name)
    if any(masks.hides_part(part) for part in ("key", "value", "headers")):
        raise WrongInput("Something in this topic is hidden, so its records cannot be sent on.")
    partition = TopicPartition(topic.name, whole_number(given.get("partition", ""), "The partition", least=0))
    offset = whole_number(given.get("offset", ""), "The offset", least=0, most=10**18)
    found = await one(workspace, masks, partition, offset)
    if found is None:
        raise WrongInput("The record is not there any more.")
    record, to = found[1], given.get("to", "").strip() or topic.name
    await (await workspace.cluster()).topic(to, refresh=True)  # one that is not there is said at once
    sending = send(workspace, to, record.value, record.key, None, list(record.headers))
    sent = await changing(call, "send again", f"{partition}@{offset} to {to}", sending)
    return call.done(
        f"Sent again: {to}, partition {sent.partition}, offset {sent.offset}.",
        query(
            f"{call.here('topics', to)}/messages/one", partition=str(sent.partition), offset=str(sent.offset)
        ),
    )
