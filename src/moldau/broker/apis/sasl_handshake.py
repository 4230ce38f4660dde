"""SaslHandshake, after a login or on a listener without one.

Behaviour: there is nothing to shake hands about any more; what comes before a login is handled in
``broker/access/authentication.py``.
"""

from typing import Any

from moldau.broker.access.asks import NOTHING
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

ASKS = NOTHING


def handle(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    raise KafkaError(ErrorCode.ILLEGAL_SASL_STATE)


def fail(request: Any, error: KafkaError, context: RequestContext) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=error.code)
