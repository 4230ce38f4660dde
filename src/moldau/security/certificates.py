"""What a certificate says of its own end, read from its bytes; enough of X.509 for that and no more.

Invariant: bytes that are no certificate give None, never an exception.
"""

import base64
import binascii
import re
from datetime import UTC, datetime

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _INTEGER, _EXPLICIT_VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0x02, 0xA0, 0x17, 0x18


def expires_at_ms(pem: str) -> int | None:
    """When the first certificate of a chain, the one that is shown to peers, is no longer good."""
    match = _PEM.search(pem)
    if match is None:
        return None
    try:
        der = base64.b64decode("".join(match[1].split()), validate=True)
        return _end_of_validity(der)
    except (binascii.Error, ValueError, IndexError):
        return None


def _end_of_validity(der: bytes) -> int:
    body, _ = _element(der, 0, _SEQUENCE)
    position, _ = _element(der, body, _SEQUENCE)
    if der[position] == _EXPLICIT_VERSION:
        position = _element(der, position, _EXPLICIT_VERSION)[1]
    position = _element(der, position, _INTEGER)[1]
    for _ in ("signature algorithm", "issuer"):
        position = _element(der, position, _SEQUENCE)[1]
    inside, _ = _element(der, position, _SEQUENCE)
    not_after = _element(der, inside, der[inside])[1]
    kind = der[not_after]
    start, end = _element(der, not_after, kind)
    text = der[start:end].decode("ascii")
    if kind == _UTC_TIME:
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    elif kind != _GENERALIZED_TIME:
        raise ValueError("the end of validity is no time")
    return int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp() * 1000)


def _element(der: bytes, position: int, kind: int) -> tuple[int, int]:
    """Where the content of an element begins and ends."""
    if der[position] != kind:
        raise ValueError(f"expected {kind:#x} at {position}")
    size = der[position + 1]
    start = position + 2
    if size & 0x80:
        length = size & 0x7F
        size = int.from_bytes(der[start : start + length], "big")
        start += length
    if start + size > len(der):
        raise ValueError("cut off")
    return start, start + size
