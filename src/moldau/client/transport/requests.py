"""Requests as bytes and answers as messages: versions, headers and frames, whatever carries them.

Pure: nothing here knows what a request means.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.codec import Reader, reader, writer
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.framing import skip_header_tags, write_request_header
from moldau.protocol.messages import load
from moldau.protocol.schema import Versions, declaration

_SIZE = struct.Struct(">i")


def agreed_version(
    address: str, offered: Mapping[int, Versions], api_key: ApiKey, max_version: int | None
) -> int:
    """The highest version that both sides know; UNSUPPORTED_VERSION when there is none."""
    ours = declaration(load(api_key)[0]).versions
    theirs = offered.get(api_key)
    if theirs is None:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"the broker at {address} does not offer {api_key.name}"
        )
    version = min(ours.last, theirs.last, ours.last if max_version is None else max_version)
    if version < max(ours.first, theirs.first):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"{api_key.name}: {address} offers versions {theirs.first} to {theirs.last}, "
            f"this client knows {ours.first} to {min(ours.last, max_version or ours.last)}",
        )
    return version


class InPlace(NamedTuple):
    """A record batch that is sent from its own memory, without a copy; for ``request_parts``."""

    content: memoryview

    @property
    def size(self) -> int:
        return len(self.content)


def encoded_request(
    request: object, api_key: ApiKey, version: int, correlation_id: int, client_id: str | None
) -> bytearray:
    """A request as it travels, its size in front."""
    (whole,) = request_parts(request, api_key, version, correlation_id, client_id)
    assert isinstance(whole, bytearray)
    return whole


def request_parts(
    request: object, api_key: ApiKey, version: int, correlation_id: int, client_id: str | None
) -> list[Any]:
    """The same in parts: one, or more where there are batches that are ``InPlace``."""
    request_class: type = type(request)
    out = bytearray(4)
    flexible = version in declaration(request_class).flexible
    write_request_header(out, api_key, version, correlation_id, client_id, flexible)
    splices: list[tuple[int, InPlace]] = []
    writer(request_class, version)(request, out, splices)
    _SIZE.pack_into(out, 0, len(out) - 4 + sum(batch.size for _, batch in splices))
    if not splices:
        return [out]
    parts: list[Any] = []
    before, whole = 0, memoryview(out)
    for position, batch in splices:
        parts += (whole[before:position], batch.content)
        before = position
    return [*parts, whole[before:]] if before < len(out) else parts


def framed(
    parts: Sequence[Any], api_key: ApiKey, version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """A request of a flexible version whose body is encoded already, as it travels."""
    head = bytearray(4)
    write_request_header(head, api_key, version, correlation_id, client_id, True)
    _SIZE.pack_into(head, 0, len(head) - 4 + sum(map(len, parts)))
    return b"".join((head, *parts))


def api_key_of(request: object) -> ApiKey:
    """Which API a request belongs to."""
    api_key = declaration(type(request)).api_key
    assert api_key is not None, f"{type(request).__name__} is not a request"
    return api_key


def answer_reader(response_class: type, version: int) -> Callable[[memoryview], Any]:
    """Reads the frame of an answer, its header included."""
    read: Reader = reader(response_class, version)
    if version in declaration(response_class).flexible:
        return lambda frame: read(frame, skip_header_tags(frame, 4))[0]
    return lambda frame: read(frame, 4)[0]
