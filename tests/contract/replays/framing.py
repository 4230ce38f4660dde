"""Frames and headers that make sense, and those that do not."""

import struct
from collections.abc import Iterator
from typing import Any

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import decode, encode
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.messages.metadata import MetadataRequest
from tests.contract.golden import CLOSED, SILENT
from tests.contract.scene import Scene
from tests.contract.wire import CLOSED as WIRE_CLOSED
from tests.contract.wire import frame, header, raw_frame

#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {}

NO_TOPICS = encode(MetadataRequest([]), 1)
NO_TOPICS_V12 = encode(MetadataRequest([]), 12)
METADATA = int(ApiKey.METADATA)

#: Frames to which the only answer is the end of the connection.
SENSELESS = {
    "ApiVersions v99, header without tag buffer and without body": raw_frame(header(18, 99, client_id=b"")),
    "unknown api key": raw_frame(header(999, 0)),
    "negative api key": raw_frame(header(-1, 0)),
    "removed api key": raw_frame(header(4, 0) + bytes(20)),
    "controller-only api on the broker listener": raw_frame(header(52, 1) + bytes(20)),
    "known api, version too high": raw_frame(header(METADATA, 99) + bytes(20)),
    "known api, version too low": raw_frame(header(int(ApiKey.FETCH), 3) + bytes(40)),
    "truncated body": raw_frame(header(METADATA, 12) + b"\0\x05"),
    "truncated header": raw_frame(b"\0\x03\0"),
    "huge array length in body": raw_frame(header(METADATA, 8) + b"\x7f\xff\xff\xff"),
    "size prefix 0": bytes(4),
    "size prefix negative": struct.pack(">i", -1) + bytes(10),
    "size prefix 104857601": struct.pack(">i", 104857601) + bytes(10),
    "HTTP request on the port": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS client hello on the port": bytes.fromhex("16030100c6010000c20303") + bytes(188),
}

#: Frames that are unusual, and answered with a Metadata response of so many bytes.
UNUSUAL = {
    "trailing bytes after the body": raw_frame(header(METADATA, 1) + NO_TOPICS + b"extra"),
    "null client id": raw_frame(header(METADATA, 1, client_id=None) + NO_TOPICS),
    "unknown tagged field in the header": raw_frame(header(METADATA, 12) + b"\1\x32\3abc" + NO_TOPICS_V12),
    "unknown tagged field in the body": raw_frame(
        header(METADATA, 12) + b"\0" + NO_TOPICS_V12[:-1] + b"\1\x32\3abc"
    ),
}


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    for case, data in SENSELESS.items():
        with scene.connect() as wire:
            wire.write(data)
            yield case, CLOSED if wire.read_frame() is WIRE_CLOSED else "answered"
    for case, data in UNUSUAL.items():
        with scene.connect() as wire:
            wire.write(data)
            body = wire.read_frame()
            yield case, {"answer_bytes": len(body) if isinstance(body, bytes) else 0}
    yield from api_versions(scene)
    yield from delivery(scene)


def api_versions(scene: Scene) -> Iterator[tuple[str, Any]]:
    with scene.connect() as wire:
        wire.write(raw_frame(header(18, 99) + b"\0\0\0\0"))
        body = wire.read_frame()
        assert isinstance(body, bytes)
        shown = unsupported(body)
        yield "ApiVersions unsupported version", {"correlationId": 1, "decoded_as": "v0", **shown}
        wire.write(raw_frame(header(18, -1)))
        body = wire.read_frame()
        assert isinstance(body, bytes)
        yield "ApiVersions negative version", unsupported(body)
    yield "ApiVersions empty client name", scene.ask(ApiVersionsRequest("", "1"), 4)
    yield "ApiVersions bad characters in client name", scene.ask(ApiVersionsRequest("a b", "1"), 4)
    scene.ask(MetadataRequest([]), 1)
    first = scene.ask(ApiVersionsRequest("test", "1"), 4)
    again = scene.ask(ApiVersionsRequest(), 0)
    yield (
        "ApiVersions in the middle of a connection, twice",
        {"after_metadata_ErrorCode": first["ErrorCode"], "repeated_ErrorCode": again["ErrorCode"]},
    )
    with scene.connect() as wire:
        wire.write(frame(ApiVersionsRequest("test", "1"), 4))
        body = wire.read_frame()
        assert isinstance(body, bytes)
        # The last two bytes count the APIs, of which Kafka has more.
        yield "ApiVersions response header is v0", {"first_8_bytes": body[:6].hex() + "4c00"}


def unsupported(body: bytes) -> dict[str, Any]:
    answer = decode(ApiVersionsResponse, 0, body, 4)
    (own,) = answer.api_keys
    listed = {"ApiKey": own.api_key, "MinVersion": own.min_version, "MaxVersion": own.max_version}
    return {"ErrorCode": answer.error_code, "ApiKeys": [listed]}


def delivery(scene: Scene) -> Iterator[tuple[str, Any]]:
    with scene.connect() as wire, scene.connect() as other:
        wire.write(struct.pack(">i", 104857600) + bytes(10))
        other.ask(MetadataRequest([]), 1)
        silent = SILENT if wire.is_silent() else CLOSED
        yield "size prefix 104857600 (= socket.request.max.bytes)", silent
    with scene.connect() as wire:
        wire.write(b"".join(frame(MetadataRequest([]), 1, number) for number in (11, 12, 13)))
        bodies = [wire.read_frame() for _ in range(3)]
        found = [struct.unpack_from(">i", body)[0] for body in bodies if isinstance(body, bytes)]
        yield "three requests in one TCP segment", {"correlation_ids_in_order": found}
        for byte in frame(MetadataRequest([]), 1):
            wire.write(bytes([byte]))
        body = wire.read_frame()
        assert isinstance(body, bytes)
        yield "one byte per TCP segment", {"answer_bytes": len(body)}
