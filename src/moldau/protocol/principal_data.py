"""Who has sent a request, as one broker tells another: Kafka's ``DefaultPrincipalData`` with its version."""

import struct

from moldau.protocol import codec
from moldau.protocol.primitives import MalformedMessage
from moldau.protocol.schema import Bool, String, data, field

_VERSION = struct.Struct(">h")


@data(versions="0", flexible="0")
class DefaultPrincipalData:
    type: String = field()
    name: String = field()
    token_authenticated: Bool = field()


ANONYMOUS = DefaultPrincipalData("User", "ANONYMOUS")


def encode_principal(principal: DefaultPrincipalData) -> bytes:
    return _VERSION.pack(0) + codec.encode(principal, 0)


def decode_principal(content: bytes) -> DefaultPrincipalData:
    """MalformedMessage when these are not the bytes of a principal."""
    if len(content) < _VERSION.size or _VERSION.unpack_from(content)[0] != 0:
        raise MalformedMessage("the principal has an unknown version")
    return codec.decode(DefaultPrincipalData, 0, content[_VERSION.size :])
