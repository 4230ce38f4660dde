"""The headers of requests and responses.

Request header v1 is API key, version, correlation id and client id; v2, used by flexible versions,
adds tagged fields. Response header v0 is the correlation id; v1 adds tagged fields. ApiVersions is
always answered with header v0, because the client does not know yet what the broker speaks.

Invariant: malformed bytes raise ``MalformedMessage``; unknown tagged fields are skipped.
"""

import struct
from typing import Any

from moldau.protocol.primitives import MalformedMessage, skip_tagged_fields

_HEADER_V1 = struct.Struct(">hhi")


def skip_header_tags(frame: Any, position: int) -> int:
    """The position after the tagged fields of a flexible request header."""
    try:
        return skip_tagged_fields(frame, position) if frame[position] else position + 1
    except IndexError:
        raise MalformedMessage("the tagged fields of the request header are cut") from None


def write_request_header(
    out: bytearray, api_key: int, version: int, correlation_id: int, client_id: str | None, flexible: bool
) -> None:
    out += _HEADER_V1.pack(api_key, version, correlation_id)
    if client_id is None:
        out += b"\xff\xff"
    else:
        encoded = client_id.encode()
        out += struct.pack(">h", len(encoded)) + encoded
    if flexible:
        out.append(0)
