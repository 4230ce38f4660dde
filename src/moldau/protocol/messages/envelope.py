"""Envelope: a client's request as another broker got it, with who has sent it and from where.

``request_data`` and ``response_data`` have their own headers and no length in front. ``attempt_id`` is
Moldau's own: the same in every attempt to bring one request to the controller, and unknown to others.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bytes, Int16, field, request, response


@request(ApiKey.ENVELOPE)
class EnvelopeRequest:
    request_data: Bytes = field()
    request_principal: Bytes | None = field()
    client_host_address: Bytes = field()
    attempt_id: Bytes = field(tag=32000, default=b"")


@response(ApiKey.ENVELOPE)
class EnvelopeResponse:
    response_data: Bytes | None = field(default=None)
    error_code: Int16 = field()
