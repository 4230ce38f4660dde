"""v2: topics, partitions and brokers, and records that are produced to them.

Invariant: the fields and codes of Confluent's v2. Every record of a request has its own outcome; a request
that cannot be read sends none of them.
"""

from typing import Any

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import raise_errors
from moldau.client.admin.descriptions import (
    EARLIEST,
    LATEST,
    ConfigResource,
    ListedOffset,
    ResourceType,
    TopicDescription,
)
from moldau.client.transport.cluster import Topic
from moldau.protocol.errors import KafkaError
from moldau.rest import formats, problems
from moldau.rest.api.call import RestCall, entries_of
from moldau.rest.api.v2.offsets import answer_text, offset, offset_text, offset_texts
from moldau.rest.formats import BY_MEDIA_TYPE, Format
from moldau.rest.plain_records import PlainRecords, read_plain
from moldau.rest.producing import (
    MIN_IN_COLUMNS,
    OutgoingRecord,
    fits_batches,
    one_by_one,
    send_all,
    send_plain,
    size_of,
)
from moldau.rest.schema_formats import WantedSchema, Writer
from moldau.rest.sessions import Session
from moldau.web.routes import Text

_BODY_FIELDS = frozenset({"records", "key_schema", "key_schema_id", "value_schema", "value_schema_id"})
_RECORD_FIELDS = frozenset({"key", "value", "partition", "headers"})


async def root(call: RestCall) -> Any:
    return {}


async def list_topics(call: RestCall) -> Any:
    session = await call.session()
    return await session.admin.list_topics(include_internal=False)


async def get_topic(call: RestCall) -> Any:
    session, name = await call.session(), call.topic()
    found = await _described(call, name)
    resource = ConfigResource(ResourceType.TOPIC, name)
    configs = (await session.admin.describe_configs([resource])).get(resource, [])
    if isinstance(configs, KafkaError):
        raise configs
    return {
        "name": name,
        "configs": {each.name: each.value for each in configs},
        "partitions": [_partition(each) for each in found.partitions],
    }


async def list_partitions(call: RestCall) -> Any:
    return [_partition(each) for each in (await _described(call, call.topic())).partitions]


async def get_partition(call: RestCall) -> Any:
    return _partition(await _one_partition(call))


async def get_offsets(call: RestCall) -> Any:
    partition = TopicPartition(call.topic(), (await _one_partition(call)).index)
    admin = (await call.session()).admin
    answer = {}
    for name, place in (("beginning_offset", EARLIEST), ("end_offset", LATEST)):
        found = await admin.list_offsets({partition: place})
        raise_errors(found)
        listed = found[partition]
        assert isinstance(listed, ListedOffset)
        answer[name] = listed.offset
    return answer


async def list_brokers(call: RestCall) -> Any:
    described = await (await call.session()).admin.describe_cluster()
    return {"brokers": sorted(each.node_id for each in described.brokers)}


async def _described(call: RestCall, name: str) -> TopicDescription:
    found = (await (await call.session()).admin.describe_topics([name])).get(name)
    if isinstance(found, TopicDescription):
        return found
    raise found or problems.topic_not_found()


async def _one_partition(call: RestCall) -> Any:
    number = call.path_number("partition", problems.partition_not_found)
    for each in (await _described(call, call.topic())).partitions:
        if each.index == number:
            return each
    raise problems.partition_not_found()


def _partition(partition: Any) -> dict[str, Any]:
    return {
        "partition": partition.index,
        "leader": partition.leader_id,
        "replicas": [
            {"broker": each, "leader": each == partition.leader_id, "in_sync": each in partition.isr}
            for each in partition.replicas
        ],
    }


# Producing ---------------------------------------------------------------------------------------------


async def produce_to_topic(call: RestCall) -> Any:
    return await _produce(call, None)


async def produce_to_partition(call: RestCall) -> Any:
    return await _produce(call, call.path_number("partition", problems.partition_not_found))


async def _produce(call: RestCall, partition: int | None) -> Any:
    session, topic = await call.session(), call.topic()
    form = BY_MEDIA_TYPE.get(call.body_type, Format.BINARY)
    plain = None if form.has_schema else read_plain(form, await call.raw_body())
    if plain is not None:
        return await _produce_plain(session, topic, plain, partition)
    return await _produce_any(call, session, form, partition)


async def _produce_any(call: RestCall, session: Session, form: Format, partition: int | None) -> Any:
    topic = call.topic()
    body = await call.body()
    unknown = body.keys() - _BODY_FIELDS
    if unknown:
        raise problems.unprocessable(f"Unrecognized field: {min(unknown)[:100]}")
    entries = entries_of(body, "records")
    if not entries:
        raise problems.unprocessable("records may not be empty")
    known = await session.topic(topic, partition=partition)
    if partition is not None and partition >= len(known.partitions):
        raise problems.partition_not_found()
    key = await _writer(call, topic, form, body, entries, is_key=True)
    value = await _writer(call, topic, form, body, entries, is_key=False)
    for part, writer in (("key", key), ("value", value)):
        if writer is not None:
            await writer.check(each.get(part) for each in entries)
    records = [_record(form, each, partition, known, key, value) for each in entries]
    outcomes = await send_all(session, topic, records)
    return {
        "offsets": [offset(outcome) for outcome in outcomes],
        "key_schema_id": None if key is None else key.schema_id,
        "value_schema_id": None if value is None else value.schema_id,
    }


async def _produce_plain(session: Session, topic: str, records: PlainRecords, partition: int | None) -> Text:
    """The same answer for records without a schema that were read the quick way, for less time."""
    known = await session.topic(topic, partition=partition)
    if partition is not None and partition >= len(known.partitions):
        raise problems.partition_not_found()
    batches = await session.batches()
    count, limit = len(records.values), batches.producer.options.batch_size_bytes
    size = size_of(records)
    if count < MIN_IN_COLUMNS or (size > limit and not fits_batches(records, limit)):
        outcomes = await send_all(session, topic, one_by_one(records, partition))
        return answer_text(map(offset_text, outcomes))
    written = await send_plain(batches, topic, records, partition, len(known.partitions), size=size)
    return answer_text(offset_texts(written, count))


async def _writer(
    call: RestCall,
    topic: str,
    form: Format,
    body: dict[str, Any],
    entries: list[dict[str, Any]],
    *,
    is_key: bool,
) -> Writer | None:
    """How keys or values with a schema are written; None where there are none, or they have no schema."""
    if not form.has_schema:
        return None
    part = "key" if is_key else "value"
    text, schema_id = body.get(f"{part}_schema"), body.get(f"{part}_schema_id")
    if text is None and schema_id is None:
        if any(each.get(part) is not None for each in entries):
            raise problems.key_schema_missing() if is_key else problems.value_schema_missing()
        return None
    if text is not None and not isinstance(text, str):
        raise problems.invalid_schema(f"{part}_schema is a text")
    if schema_id is not None and (not isinstance(schema_id, int) or isinstance(schema_id, bool)):
        raise problems.invalid_schema(f"{part}_schema_id is a number")
    wanted = WantedSchema(form, text) if schema_id is None else WantedSchema(form, schema_id=schema_id)
    return await call.proxy.schemas.writer(topic, is_key, wanted)


def _record(
    form: Format,
    entry: dict[str, Any],
    partition: int | None,
    topic: Topic,
    key: Writer | None,
    value: Writer | None,
) -> OutgoingRecord:
    if not entry.keys() <= _RECORD_FIELDS:
        raise problems.unprocessable(f"Unrecognized field: {min(entry.keys() - _RECORD_FIELDS)[:100]}")
    if partition is None:
        partition = _chosen(entry.get("partition"))
    try:
        if form.has_schema:
            key_data = None if key is None else key.write(entry.get("key"))
            value_data = None if value is None else value.write(entry.get("value"))
        else:
            key_data = formats.encode(form, entry.get("key"))
            value_data = formats.encode(form, entry.get("value"))
    except ValueError as error:
        raise problems.unprocessable(error) from None
    return OutgoingRecord(key_data, value_data, partition)


def _chosen(partition: Any) -> int | None:
    if partition is None:
        return None
    if not isinstance(partition, int) or isinstance(partition, bool) or not 0 <= partition < 1 << 31:
        raise problems.unprocessable("partition is a number that is not negative")
    return partition
