"""Envelope.

Behaviour: a client's request that reached another broker is handled here as if it had come here, with its
own principal and address. From brokers only, and only for the APIs that brokers forward.
"""

import ipaddress
from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext, Services
from moldau.broker.forwarding import FORWARDED, FORWARDED_IN_PARTS, api_key_of_frame
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from moldau.protocol.primitives import MalformedMessage
from moldau.protocol.principal_data import decode_principal
from moldau.security.acls import Operation

ASKS = (cluster(Operation.CLUSTER_ACTION),)


async def handle(request: EnvelopeRequest, context: RequestContext) -> EnvelopeResponse:
    context.check_between_brokers()
    if not context.services.is_controller:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)
    return await opened(context.services, request)


async def opened(services: Services, request: EnvelopeRequest) -> EnvelopeResponse:
    """The answer to what is in it, by this broker, which is the controller."""
    if api_key_of_frame(request.request_data) not in FORWARDED | FORWARDED_IN_PARTS:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    try:
        principal = decode_principal(request.request_principal or b"")
        host = str(ipaddress.ip_address(bytes(request.client_host_address)))
    except MalformedMessage:
        raise KafkaError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE) from None
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST) from None
    content = bytes(request.request_data)
    listener = services.settings.inter_broker_listener.name
    answer = await services.unwrap(content, principal, host, listener, bytes(request.attempt_id))
    return EnvelopeResponse(answer)


def fail(request: Any, error: KafkaError, context: RequestContext) -> EnvelopeResponse:
    return EnvelopeResponse(error_code=error.code)
