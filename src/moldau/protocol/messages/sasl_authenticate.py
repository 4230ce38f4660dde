"""SaslAuthenticate: carries one step of a SASL exchange.

Follows SaslHandshake version 1. Version 1 tells for how long the session is valid, so that a client can
authenticate again in time.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bytes, Int16, Int64, String, field, request, response


@request(ApiKey.SASL_AUTHENTICATE)
class SaslAuthenticateRequest:
    auth_bytes: Bytes = field()


@response(ApiKey.SASL_AUTHENTICATE)
class SaslAuthenticateResponse:
    error_code: Int16 = field()
    error_message: String | None = field()
    auth_bytes: Bytes = field()
    session_lifetime_ms: Int64 = field("1+")
