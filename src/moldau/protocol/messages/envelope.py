"""Envelope: a client's request as another broker got it, with who has sent it and from where.

``request_data`` and ``response_data`` have their own headers and no length in front.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bytes, Int16, field, request, response


@request(ApiKey.ENVELOPE)
class EnvelopeRequest:
    request_data: Bytes = field()
    request_principal: Bytes | None = field()
    client_host_address: Bytes = field()


@response(ApiKey.ENVELOPE)
class EnvelopeResponse:
    response_data: Bytes | None = field(default=None)
    error_code: Int16 = field()
