"""v2: consumer instances, what they read, and where they are.

Invariant: the fields and codes of Confluent's v2. A request for an instance of another proxy is sent on there
(``RestCall.instance``), so that any proxy will do.
"""

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.groups.descriptions import CommittedOffset
from moldau.protocol.errors import KafkaError
from moldau.rest import problems
from moldau.rest.api.call import LARGEST_LONG, RestCall, entries_of, number_of, partition_of
from moldau.rest.consumers.instance import ConsumerInstance
from moldau.rest.consumers.settings import read_settings
from moldau.rest.consumers.subscription import read_subscription
from moldau.rest.formats import BY_MEDIA_TYPE
from moldau.rest.peers import Elsewhere, InstanceName, owner
from moldau.web.forwarding import EVENT_STREAM
from moldau.web.problems import Problem
from moldau.web.routes import Answer, Streamed, Text

_MAX_TIMEOUT_MS = 60_000
_MAX_GROUP_NAME = 32_000
#: The number that acknowledges an answer, where the instance has redelivery.
DELIVERY = "X-Delivery"
#: A follower gets what it can take in pieces of so many bytes.
_FOLLOW_BYTES = 256 * 1024


async def create(call: RestCall) -> Any:
    settings = read_settings(await call.optional_body())
    session, group_id = await call.session(), call.parameters["group"]
    if not group_id or len(group_id) > _MAX_GROUP_NAME:
        raise problems.unprocessable("the name of a group is not empty")
    peers = call.proxy.peers
    if settings.name is None:
        name = _new_name(call, group_id)
    else:
        name = InstanceName(group_id, settings.name)
        there = owner(peers.urls, name)
        # Whoever owns the name says whether it is taken. A request that was sent on stays where it is, and so
        # does one whose owner does not answer: it has died, and the group does not know yet.
        if not call.proxy.consumers.has(name) and there != peers.url and call.may_try(there):
            raise Elsewhere(there)
    link = call.link("consumers", group_id, "instances", name.name)
    call.proxy.consumers.create(name, session, settings, call.proxy.renders(settings.format))
    return {"instance_id": name.name, "base_uri": link}


def _new_name(call: RestCall, group_id: str) -> InstanceName:
    """A name that belongs to this proxy, so that the others find the instance at once."""
    peers = call.proxy.peers
    while True:
        name = InstanceName(group_id, f"rest-consumer-{uuid.uuid4()}")
        if owner(peers.urls, name) == peers.url:
            return name


async def delete(call: RestCall) -> Any:
    await call.instance()
    await call.proxy.consumers.delete(call.instance_name(), await call.session())
    return Answer(status=204)


# What to read ------------------------------------------------------------------------------------------


async def subscribe(call: RestCall) -> Any:
    instance = await call.instance()
    await instance.subscribe(read_subscription(await call.body()))
    return Answer(status=204)


async def get_subscription(call: RestCall) -> Any:
    instance = await call.instance()
    found = instance.subscription
    if found is None:
        return {"topics": []}
    if found.pattern is None:
        return {"topics": list(found.names)}
    return {"topics": sorted({each.topic for each in instance.assignment})}


async def unsubscribe(call: RestCall) -> Any:
    await (await call.instance()).unsubscribe()
    return Answer(status=204)


async def assign(call: RestCall) -> Any:
    instance = await call.instance()
    partitions = await call.partitions()
    await _check_partitions(call, partitions)
    await instance.assign(partitions)
    return Answer(status=204)


async def get_assignments(call: RestCall) -> Any:
    partitions = (await call.instance()).assignment
    return {"partitions": [{"topic": each.topic, "partition": each.partition} for each in partitions]}


async def _check_partitions(call: RestCall, partitions: list[TopicPartition]) -> None:
    cluster = (await call.session()).cluster
    for name in sorted({each.topic for each in partitions}):
        topic = await cluster.topic(name, refresh=True)
        wanted = max(each.partition for each in partitions if each.topic == name)
        if wanted >= len(topic.partitions):
            raise problems.partition_not_found()


# Places ------------------------------------------------------------------------------------------------


async def seek(call: RestCall) -> Any:
    instance = await call.instance()
    offsets = {partition_of(each): number_of(each, "offset") for each in await call.entries("offsets")}
    await instance.seek(offsets)
    return Answer(status=204)


async def seek_to_beginning(call: RestCall) -> Any:
    instance = await call.instance()
    await instance.seek_to_beginning(await call.partitions())
    return Answer(status=204)


async def seek_to_end(call: RestCall) -> Any:
    instance = await call.instance()
    await instance.seek_to_end(await call.partitions())
    return Answer(status=204)


async def commit(call: RestCall) -> Any:
    """An offset is that of the last record that was dealt with, so the next one is committed."""
    instance = await call.instance()
    body = await call.optional_body()
    if not body:
        await instance.commit(None)
        return Answer(status=204)
    offsets = {}
    for each in entries_of(body, "offsets"):
        metadata = each.get("metadata") or ""
        if not isinstance(metadata, str):
            raise problems.unprocessable("metadata is a text")
        done = number_of(each, "offset", LARGEST_LONG - 1)
        offsets[partition_of(each)] = CommittedOffset(done + 1, -1, metadata)
    await _check_partitions(call, list(offsets))
    await instance.commit(offsets)
    return Answer(status=204)


async def get_committed(call: RestCall) -> Any:
    instance = await call.instance()
    partitions = await call.partitions()
    found = await instance.committed(partitions)
    return {
        "offsets": [
            {
                "topic": each.topic,
                "partition": each.partition,
                "offset": found[each].offset,
                "metadata": found[each].metadata,
            }
            for each in partitions
            if each in found
        ]
    }


# Records -----------------------------------------------------------------------------------------------


async def records(call: RestCall) -> Any:
    instance = await call.instance()
    form = instance.settings.format
    if BY_MEDIA_TYPE.get(call.media_type, form) is not form:
        raise problems.consumer_format_mismatch()
    if call.text("follow") is not None and call.text("follow") != "false":
        return _follow(call, instance)
    timeout = call.number("timeout", instance.settings.timeout_ms)
    limit = call.proxy.options.max_answer_bytes
    max_bytes = call.number("max_bytes", limit)
    if timeout < 0 or max_bytes < 0:
        raise Problem(40001, 400, "timeout and max_bytes are not negative")
    ack = call.text("ack")
    with instance.in_use():
        answer = await instance.records(
            min(timeout, _MAX_TIMEOUT_MS),
            min(max_bytes, limit),
            int(ack) if ack is not None and ack.isdecimal() and len(ack) < 20 else None,
        )
    headers = [("Content-Type", form.media_type)]
    if answer.number is not None:
        headers.append((DELIVERY, str(answer.number)))
    return Answer(Text(f"[{','.join(answer.records)}]"), headers=tuple(headers))


def _follow(call: RestCall, instance: ConsumerInstance) -> Streamed:
    if instance.following:
        raise problems.illegal_state("The records of this consumer are being followed by another request")
    if call.proxy.followers >= call.proxy.options.max_followers:
        raise problems.too_many("requests that follow records")
    return Streamed(_events(call, instance), EVENT_STREAM, (("Cache-Control", "no-store"),))


async def _events(call: RestCall, instance: ConsumerInstance) -> AsyncIterator[bytes]:
    """Server-sent events: one for each record, a comment when there was none, a last one for a failure."""
    proxy, render = call.proxy, call.proxy.renders(instance.settings.format, whole=True)
    proxy.followers += 1
    try:
        with instance.in_use():
            yield b": following\n\n"
            async with aclosing(instance.follow(_FOLLOW_BYTES, render)) as following:
                async for found in following:
                    yield b"".join(_event(each) for each in found) or b": waiting\n\n"
                    if proxy.stopping:
                        return
    except (Problem, KafkaError) as error:
        problem = error if isinstance(error, Problem) else problems.from_kafka(error, v2=True)
        told = {"error_code": problem.code, "message": problem.message}
        yield b"event: error\ndata: " + json.dumps(told).encode() + b"\n\n"
    finally:
        proxy.followers -= 1


def _event(record: str) -> bytes:
    # Inside of texts JSON has no line ends: those that there are mean nothing, and would end the event.
    return f"data: {record.replace(chr(10), ' ').replace(chr(13), ' ')}\n\n".encode()
