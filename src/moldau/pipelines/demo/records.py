"""Events of the shop as records: topic, key and value, as the pipeline reads them.

Orders are typed: Avro in the registry's wire format, by the serializer that is handed in. Clicks and
customers are JSON.

Pure. An order that cannot be decoded is made here, so that the shop need not know how values are encoded.
"""

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, NamedTuple

from moldau.pipelines.demo.shop import CLICKS, CUSTOMERS, ORDERS, Click, Customer, Event, Fault

#: The schema of an order's value; the registry keeps it under the subject orders-value.
ORDER_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "moldau.demo",
        "fields": [
            {"name": "order_id", "type": "string"},
            {"name": "customer_id", "type": "string"},
            {"name": "product", "type": "string"},
            {"name": "category", "type": "string"},
            {"name": "quantity", "type": "int"},
            {"name": "price", "type": "long", "doc": "of one piece, in hellers"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
)

#: From the fields of an order to the bytes of its value.
Encoder = Callable[[dict[str, Any]], bytes]


class DemoRecord(NamedTuple):
    topic: str
    key: bytes
    value: bytes
    timestamp_ms: int


def record_of(event: Event, encode_order: Encoder) -> DemoRecord:
    """The record of a click or an order; its time is the time at which it is written."""
    if isinstance(event, Click):
        fields = asdict(event)
        fields["at"] = time_text(fields.pop("at_ms"))
        return DemoRecord(CLICKS, event.customer_id.encode(), json_bytes(fields), event.at_ms)
    fields = {
        "order_id": event.order_id,
        "customer_id": event.customer_id,
        "product": event.product,
        "category": event.category,
        "quantity": event.quantity,
        "price": event.price,
        "at": datetime.fromtimestamp(event.at_ms / 1000, UTC),
    }
    value = encode_order(fields)
    if event.fault == Fault.UNREADABLE:
        value = b"<order>" + event.order_id.encode()  # what an old system would still send
    return DemoRecord(ORDERS, event.customer_id.encode(), value, event.arrives_ms)


def customer_record(customer: Customer, now_ms: int) -> DemoRecord:
    return DemoRecord(CUSTOMERS, customer.customer_id.encode(), json_bytes(asdict(customer)), now_ms)


def json_order(fields: dict[str, Any]) -> bytes:
    """An order as JSON, for readers without a registry."""
    return json_bytes({**fields, "at": time_text(round(fields["at"].timestamp() * 1000))})


def json_bytes(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def time_text(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
