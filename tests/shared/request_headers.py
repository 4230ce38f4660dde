"""Reads the headers of requests that clients of tests have sent."""

import struct
from typing import Any, NamedTuple

_FIXED = struct.Struct(">hhih")


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    #: Where the body starts, or the tagged fields of the header in flexible versions.
    position: int


def read_request_header(frame: Any) -> RequestHeader:
    """The part that all versions have; for flexible versions ``skip_header_tags`` has to follow."""
    api_key, version, correlation_id, size = _FIXED.unpack_from(frame, 0)
    end = _FIXED.size + max(size, 0)
    client_id = None if size < 0 else str(frame[_FIXED.size : end], "utf-8")
    return RequestHeader(api_key, version, correlation_id, client_id, end)
