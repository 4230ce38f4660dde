"""v3: records that are produced, one or a stream of them, each with a report of its own.

A body of known length is read whole. One record is then answered with the status of its report; several, and
every body that comes in pieces of unknown length, with 200 and a line for each record, in their order, while
the body may still be coming.

Invariant: a report is written when its record has its outcome. Records that wait for theirs are bounded: a
client that reads no reports, or a cluster that is slow, stops the stream and fills no memory.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from moldau.client.producer.producer import Delivery, Producer
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.rest import formats, problems
from moldau.rest.api.call import RestCall
from moldau.rest.api.v3.resources import cluster_of
from moldau.rest.formats import BY_TYPE, Format
from moldau.rest.json_stream import ObjectSplitter, StreamError
from moldau.rest.producing import OutgoingRecord, is_tried_alone, outcome_of
from moldau.rest.schema_formats import WantedSchema, Writer
from moldau.rest.sessions import Session
from moldau.web.call import ClientGone
from moldau.web.json_text import read_json
from moldau.web.problems import Problem, http_problem
from moldau.web.routes import Streamed

log = logging.getLogger("moldau.rest")

#: Records of one stream whose outcome is not known yet.
_MAX_WAITING = 1_000
_FIELDS = frozenset({"partition_id", "headers", "key", "value", "timestamp"})
_DATA_FIELDS = frozenset(
    {"type", "data", "subject", "subject_name_strategy", "schema_id", "schema_version", "schema"}
)
_STRATEGIES = ("TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME")
_MAX_NUMBER = (1 << 31) - 1


@dataclass(slots=True)
class _Sent:
    """A record on its way, and what its report will say of its key and value."""

    producer: Producer
    delivery: Delivery
    #: None when it is not needed any more: reports may wait for long.
    record: OutgoingRecord | None
    key: dict[str, Any] | None
    value: dict[str, Any] | None

    def let_go(self, outcome: object) -> None:
        if not is_tried_alone(self.delivery, outcome):
            self.record = None


async def produce(call: RestCall) -> Any:
    session, _ = await cluster_of(call)
    if call.header("content-length") is None:
        return Streamed(_stream(call, session), reads_body=True)
    splitter = ObjectSplitter(call.proxy.options.max_record_bytes)
    try:
        texts = list(splitter.feed(await call.raw_body()))
        splitter.finish()
    except StreamError as error:
        raise problems.bad_request(f"The request is no JSON: {error}") from None
    if not texts:
        raise problems.bad_request("The request has no record")
    if len(texts) == 1:
        return await _report(call, await _send(call, session, texts[0]))
    sent: list[_Sent | Problem] = []
    for text in texts:
        try:
            sent.append(await _send(call, session, text))
        except Problem as problem:
            sent.append(problem)
    lines = [_line(await _outcome(call, each)) for each in sent]
    return Streamed(_all(lines))


async def _all(lines: list[bytes]) -> AsyncIterator[bytes]:
    yield b"".join(lines)


async def _stream(call: RestCall, session: Session) -> AsyncIterator[bytes]:
    """Reads records and writes reports at the same time."""
    waiting: asyncio.Queue[_Sent | Problem | None] = asyncio.Queue(_MAX_WAITING)
    session.users += 1  # a stream may go on for longer than a session that nobody uses
    reading = asyncio.create_task(_read(call, session, waiting), name="rest-produce")
    try:
        while (sent := await waiting.get()) is not None:
            yield _line(await _outcome(call, sent))
    finally:
        reading.cancel()
        while not waiting.empty():  # so that the task has space for its last word
            waiting.get_nowait()
        await asyncio.gather(reading, return_exceptions=True)
        session.users -= 1


async def _read(call: RestCall, session: Session, waiting: "asyncio.Queue[_Sent | Problem | None]") -> None:
    splitter = ObjectSplitter(call.proxy.options.max_record_bytes)
    parts = call.body_parts()
    try:
        while True:
            async with asyncio.timeout(call.limits.request_timeout_ms / 1000):
                part = await anext(parts, None)
            if part is None:
                break
            for text in splitter.feed(part):
                try:
                    sent: _Sent | Problem = await _send(call, session, text)
                except Problem as problem:
                    sent = problem
                await waiting.put(sent)
        splitter.finish()
    except StreamError as error:
        await waiting.put(problems.bad_request(f"The request is no JSON: {error}"))
    except TimeoutError:
        await waiting.put(Problem(408, 408, "No record came for too long"))
    except ClientGone:
        pass  # what came is sent, and nobody is left to read its reports
    except Exception:  # a bug of ours: without a word the client would see nothing but the end
        log.exception("request %s failed", call.request_id)
        await waiting.put(http_problem(500))
    finally:
        await waiting.put(None)


# One record --------------------------------------------------------------------------------------------


async def _send(call: RestCall, session: Session, text: bytes) -> _Sent:
    """Begins to send a record; what is wrong with it is raised as a ``Problem``."""
    topic = call.topic()
    try:
        body = read_json(text)
    except ValueError as error:
        raise problems.bad_request(f"The record is no JSON: {error}") from None
    unknown = body.keys() - _FIELDS
    if unknown:
        raise problems.bad_request(f"Unrecognized field: {min(unknown)[:100]}")
    partition = _number(body, "partition_id")
    try:
        await session.topic(topic, partition=partition)
        key, key_told = await _data(call, topic, body.get("key"), is_key=True)
        value, value_told = await _data(call, topic, body.get("value"), is_key=False)
        record = OutgoingRecord(
            key, value, partition, _headers(body.get("headers")), _timestamp(body.get("timestamp"))
        )
        producer = await session.producer()
        delivery = await producer.send(
            topic, record.value, record.key, record.partition, record.headers, record.timestamp_ms
        )
    except KafkaError as error:
        raise problems.from_kafka(error) from None
    sent = _Sent(producer, delivery, record, key_told, value_told)
    delivery.when_done(sent.let_go)
    return sent


async def _data(
    call: RestCall, topic: str, given: Any, *, is_key: bool
) -> tuple[bytes | None, dict[str, Any] | None]:
    """The bytes of a key or a value, and what its report says of it."""
    part = "key" if is_key else "value"
    if given is None:
        return None, None
    if not isinstance(given, dict) or not given.keys() <= _DATA_FIELDS:
        raise problems.bad_request(f"{part} is an object with type and data")
    kind = given.get("type")
    if kind is not None and not (isinstance(kind, str) and (kind == "STRING" or kind in BY_TYPE)):
        names = ", ".join((*BY_TYPE, "STRING"))
        raise problems.bad_request(f"the type of the {part} is one of {names}")
    form = None if kind is None else BY_TYPE.get(kind)
    data = given.get("data")
    if kind == "STRING" or (form is not None and not form.has_schema):
        encoded = _plain(kind, form, data, part)
        return encoded, None if encoded is None else {"type": kind, "size": len(encoded)}
    writer = await _writer(call, topic, form, given, is_key=is_key)
    await writer.check((data,))
    encoded = writer.write(data)
    if encoded is None:
        return None, None
    return encoded, {
        "type": writer.form.name,
        "subject": writer.schema.subject,
        "schema_id": writer.schema_id,
        "schema_version": writer.schema.version,
        "size": len(encoded),
    }


def _plain(kind: Any, form: Format | None, data: Any, part: str) -> bytes | None:
    try:
        if form is not None:
            return formats.encode(form, data)
        if data is not None and not isinstance(data, str):
            raise ValueError("it is no text")
        return None if data is None else data.encode()
    except ValueError as error:
        raise problems.bad_request(f"the {part} is no {kind}: {error}") from None


async def _writer(
    call: RestCall, topic: str, form: Format | None, given: dict[str, Any], *, is_key: bool
) -> Writer:
    text, subject = given.get("schema"), given.get("subject")
    strategy = given.get("subject_name_strategy") or "TOPIC_NAME"
    if not isinstance(text, str | None) or not isinstance(subject, str | None):
        raise problems.bad_request("schema and subject are texts")
    if strategy not in _STRATEGIES:
        raise problems.bad_request(f"subject_name_strategy is one of {', '.join(_STRATEGIES)}")
    if text is not None and form is None:
        raise problems.bad_request("a schema needs its type: AVRO, JSONSCHEMA or PROTOBUF")
    wanted = WantedSchema(
        form, text, _number(given, "schema_id"), _number(given, "schema_version"), subject, strategy
    )
    try:
        return await call.proxy.schemas.writer(topic, is_key, wanted)
    except Problem as problem:
        if problem.code != 40801:
            raise
        raise Problem(42206, 422, f"Error when fetching the schema: {problem.message}") from None


def _number(body: dict[str, Any], name: str) -> int | None:
    found = body.get(name)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= _MAX_NUMBER:
        raise problems.bad_request(f"{name} is a number that is not negative")
    return found


def _headers(given: Any) -> list[tuple[str, bytes | None]]:
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise problems.bad_request("headers is a list of objects with name and value")
    found = []
    for each in given:
        name = each.get("name")
        if not isinstance(name, str):
            raise problems.bad_request("the name of a header is a text")
        try:
            found.append((name, formats.header_value(each.get("value"))))
            name.encode()
        except ValueError as error:
            raise problems.bad_request(f"the header {name[:100]!r}: {error}") from None
    return found


def _timestamp(given: Any) -> int | None:
    """Milliseconds since 1970, from a date and time, or as they are; no record is older."""
    if given is None:
        return None
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 1 << 53:
        return given
    try:
        moment = datetime.fromisoformat(given)
    except (TypeError, ValueError):
        raise problems.bad_request("timestamp is a date and time such as 2021-02-05T19:14:42Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = round(moment.timestamp() * 1000)
    if since < 0:
        raise problems.bad_request("timestamp is before 1970")
    return since


# Reports -----------------------------------------------------------------------------------------------


async def _outcome(call: RestCall, sent: "_Sent | Problem") -> dict[str, Any]:
    if isinstance(sent, Problem):
        return {"error_code": sent.code, "message": sent.message}
    try:
        return await _report(call, sent)
    except Problem as problem:
        return {"error_code": problem.code, "message": problem.message}


async def _report(call: RestCall, sent: _Sent) -> dict[str, Any]:
    found = await outcome_of(sent.producer, sent.delivery, sent.record)
    if isinstance(found, KafkaError):
        if found.code == ErrorCode.INVALID_RECORD:
            raise problems.bad_request(found)
        raise problems.from_kafka(found)
    report: dict[str, Any] = {
        "error_code": 200,
        "cluster_id": call.parameters["cluster"],
        "topic_name": found.topic,
        "partition_id": found.partition,
        "offset": found.offset,
        "timestamp": _moment(found.timestamp),
    }
    if sent.key is not None:
        report["key"] = sent.key
    if sent.value is not None:
        report["value"] = sent.value
    return report


def _moment(timestamp_ms: int) -> str | None:
    if timestamp_ms < 0:
        return None
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    milliseconds = timestamp_ms % 1000
    return f"{text}.{milliseconds:03}Z" if milliseconds else f"{text}Z"


def _line(report: dict[str, Any]) -> bytes:
    return json.dumps(report, separators=(",", ":")).encode("ascii") + b"\r\n"
