"""What the real broker answered, and how ours is compared with it.

Invariant: every field that the real broker sent is compared, by Kafka's own names. Only what differs from
run to run is set aside: ids, times, ports and sizes of disks, and even of those whether they are set.
"""

import json
import re
from pathlib import Path
from typing import Any

from moldau.base.names import format_uuid
from moldau.protocol.records import COMPRESSION_MASK, HEADER_SIZE, read_header
from moldau.protocol.schema import Field, declaration

BEHAVIOURS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "behaviours.json").read_text()
)

CLOSED = {"connection": "closed by the broker, no answer"}
SILENT = {"connection": "no answer, connection stays open (waited for the socket timeout)"}

#: Numbers that are times: those of our days, and bounds that were counted from them.
_TIME = re.compile(r"-?\d{12,}")
_WELL_KNOWN_IDS = {"AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ"}
#: The random part of the ids that a broker gives to members: of classic groups, and of the new protocol.
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MEMBER_ID = re.compile(r"(?!A{20})[A-Za-z0-9_-]{22}")
#: Set or not set is all that can be compared of these.
_FREE = {
    "Port",
    "ClusterId",
    "SessionId",
    "ClientInstanceId",
    "LogDir",
    "TotalBytes",
    "UsableBytes",
}


def plain(value: Any, version: int) -> Any:
    """A message as the golden rows show it: Kafka's names, only the fields of this version."""
    if isinstance(value, list):
        return [plain(each, version) for each in value]
    if not hasattr(value, "__message__"):
        return value
    shown = {}
    for field in declaration(type(value)).fields:
        content = getattr(value, field.name)
        if version in field.present and not (version in field.tagged and _is_default(field, content)):
            shown[_kafka_name(field.name)] = _field(field, content, version)
    return shown


def _field(field: Field, content: Any, version: int) -> Any:
    if field.kind == "uuid" and not field.is_array:
        return format_uuid(content)
    if field.kind == "records":
        return summary(bytes(content or b""))
    if field.kind == "bytes" and content is not None:
        return {"bytes": len(content), "hex": bytes(content).hex()}
    return plain(content, version)


def _is_default(field: Field, content: Any) -> bool:
    if field.is_array:
        return not content
    default = field.default if isinstance(field.kind, str) else field.kind()
    return bool(content == default)


def _kafka_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def summary(records: bytes) -> dict[str, Any]:
    """Fetched record batches by their headers; the last one may be cut."""
    if not records:
        return {"bytes": 0, "hex": ""}
    found: list[dict[str, Any]] = []
    position = 0
    while position < len(records):
        left = len(records) - position
        if left < HEADER_SIZE or read_header(records, position).size > left:
            found.append({"truncated": left})
            break
        batch = read_header(records, position)
        found.append(
            {
                "baseOffset": batch.base_offset,
                "length": batch.batch_length,
                "leaderEpoch": batch.partition_leader_epoch,
                "magic": batch.magic,
                "attributes": batch.attributes,
                "lastOffsetDelta": batch.last_offset_delta,
                "producerId": batch.producer_id,
                "producerEpoch": batch.producer_epoch,
                "baseSequence": batch.base_sequence,
                "count": batch.record_count,
                "baseTimestamp": batch.base_timestamp,
                "maxTimestamp": batch.max_timestamp,
            }
        )
        position += batch.size
    return {"bytes": len(records), "batches": found}


def _sizes_of_the_library(value: dict[str, Any]) -> set[str]:
    """How small compressed records become is the compression library's business."""
    if value.get("attributes", 0) & COMPRESSION_MASK:
        return {"length"}
    inside = value.get("batches", ())
    return {"bytes"} if any(each.get("attributes", 0) & COMPRESSION_MASK for each in inside) else set()


def comparable(value: Any, key: str = "") -> Any:
    """The value without what differs from run to run."""
    if isinstance(value, dict):
        aside = _sizes_of_the_library(value)
        return {name: comparable(content, name) for name, content in value.items() if name not in aside}
    if isinstance(value, list):
        if key == "Configs":
            return f"{len(value)} entries" if value else []
        return [comparable(each) for each in value]
    if key == "TopicId" and value not in _WELL_KNOWN_IDS:
        return "<id>"
    if key == "MemberId" and value is not None and _MEMBER_ID.fullmatch(value):
        return "<id>"
    if key == "SubscriptionId":
        return "<any>"
    if key in _FREE:
        return "<set>" if value not in (0, -1, "", None) else value
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value > 10**11:
        return "<time>"
    if isinstance(value, str):
        value = _TIME.sub("<time>", _UUID.sub("<uuid>", value))
        return re.sub(r"x{249,}", lambda match: f"<{len(match[0])} chars>", value)
    return value
