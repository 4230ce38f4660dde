"""SaslHandshake (key 17, versions 0-1, never flexible): chooses a SASL mechanism.

After version 0 the client sends bare SASL tokens without a header; after version 1 it wraps them in
SaslAuthenticate.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, String, field, request, response


@request(ApiKey.SASL_HANDSHAKE)
class SaslHandshakeRequest:
    mechanism: String = field()


@response(ApiKey.SASL_HANDSHAKE)
class SaslHandshakeResponse:
    error_code: Int16 = field()
    mechanisms: list[String] = field()
