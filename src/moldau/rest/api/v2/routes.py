"""The table of v2's routes, with the media types of each.

Pure, but for the handlers it names.
"""

from moldau.rest.api.call import answered
from moldau.rest.api.v2 import consumers, topics
from moldau.rest.formats import EMBEDDED_TYPES, V2, V2_TYPES
from moldau.web.routes import Handler, Parameter, Route, number

_BODY_TYPES = (*V2_TYPES, "application/octet-stream")
_PRODUCE_TYPES = (*EMBEDDED_TYPES, *V2_TYPES)
_INSTANCE = "/consumers/{group}/instances/{instance}"


def _route(
    method: str,
    path: str,
    handler: Handler,
    summary: str,
    *,
    query: tuple[Parameter, ...] = (),
    body: str | None = None,
    answer: str | None = None,
    status: int = 200,
    media_types: tuple[str, ...] = V2_TYPES,
    body_types: tuple[str, ...] = _BODY_TYPES,
) -> Route:
    return Route(
        method,
        path,
        answered(handler, v2=True),
        summary,
        query,
        body,
        answer,
        status,
        media_types,
        body_types,
    )


_RECORDS = (
    number("timeout", "Milliseconds to wait for records; at most 60,000"),
    number("max_bytes", "Bytes of keys and values in the answer"),
    number("ack", "The X-Delivery of the last answer, for an instance with redelivery"),
    Parameter("follow", "string", "Records as server-sent events, for ever"),
)
ROUTES = (
    _route("GET", "/", topics.root, "Whether the proxy is there"),
    _route("GET", "/topics", topics.list_topics, "List topics", answer="Names"),
    _route("GET", "/topics/{topic}", topics.get_topic, "Describe a topic", answer="Topic"),
    _route(
        "POST",
        "/topics/{topic}",
        topics.produce_to_topic,
        "Produce records",
        body="ProduceRequest",
        answer="ProduceResponse",
        body_types=_PRODUCE_TYPES,
    ),
    _route("GET", "/topics/{topic}/partitions", topics.list_partitions, "List partitions"),
    _route("GET", "/topics/{topic}/partitions/{partition:integer}", topics.get_partition, "A partition"),
    _route(
        "POST",
        "/topics/{topic}/partitions/{partition:integer}",
        topics.produce_to_partition,
        "Produce records to a partition",
        body="ProduceRequest",
        answer="ProduceResponse",
        body_types=_PRODUCE_TYPES,
    ),
    _route(
        "GET",
        "/topics/{topic}/partitions/{partition:integer}/offsets",
        topics.get_offsets,
        "Where a partition begins and ends",
        answer="Offsets",
    ),
    _route("GET", "/brokers", topics.list_brokers, "List brokers", answer="Brokers"),
    _route(
        "POST",
        "/consumers/{group}",
        consumers.create,
        "Create a consumer instance",
        body="CreateConsumer",
        answer="Consumer",
    ),
    _route("DELETE", _INSTANCE, consumers.delete, "Delete a consumer instance", status=204),
    _route(
        "POST",
        f"{_INSTANCE}/subscription",
        consumers.subscribe,
        "Subscribe to topics",
        body="Subscription",
        status=204,
    ),
    _route("GET", f"{_INSTANCE}/subscription", consumers.get_subscription, "The subscription"),
    _route("DELETE", f"{_INSTANCE}/subscription", consumers.unsubscribe, "Unsubscribe", status=204),
    _route(
        "POST",
        f"{_INSTANCE}/assignments",
        consumers.assign,
        "Assign partitions by hand",
        body="Partitions",
        status=204,
    ),
    _route("GET", f"{_INSTANCE}/assignments", consumers.get_assignments, "What is read", answer="Partitions"),
    _route(
        "POST", f"{_INSTANCE}/positions", consumers.seek, "Read on at offsets", body="Positions", status=204
    ),
    _route(
        "POST",
        f"{_INSTANCE}/positions/beginning",
        consumers.seek_to_beginning,
        "Read on at the beginning",
        body="Partitions",
        status=204,
    ),
    _route(
        "POST",
        f"{_INSTANCE}/positions/end",
        consumers.seek_to_end,
        "Read on at the end",
        body="Partitions",
        status=204,
    ),
    _route("POST", f"{_INSTANCE}/offsets", consumers.commit, "Commit offsets", body="Positions", status=204),
    _route(
        "GET", f"{_INSTANCE}/offsets", consumers.get_committed, "What is committed; partitions in the body"
    ),
    _route(
        "GET",
        f"{_INSTANCE}/records",
        consumers.records,
        "Read records",
        query=_RECORDS,
        media_types=(V2, *EMBEDDED_TYPES, *V2_TYPES[1:], "text/event-stream"),
    ),
)
