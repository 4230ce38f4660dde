"""SaslAuthenticate, after a login or on a listener without one.

Behaviour: refused; what comes before a login is handled in ``broker/access/authentication.py``.
"""

from typing import Any

from moldau.broker.access.asks import NOTHING
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

ASKS = NOTHING


def handle(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    raise KafkaError(
        ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
    )


def fail(request: Any, error: KafkaError, context: RequestContext) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=error.code, error_message=error.message)
