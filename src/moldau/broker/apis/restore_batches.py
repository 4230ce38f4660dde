"""RestoreBatches, an API of our own.

Behaviour: appends whole batches to a topic that is being restored, at the offsets that they have. Checksum
and order are checked; a batch that cannot follow is refused and changes nothing.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.restore_batches import RestoreBatchesRequest, RestoreBatchesResponse
from moldau.security.acls import Operation

ASKS = (cluster(Operation.CREATE),)


def handle(request: RestoreBatchesRequest, context: RequestContext) -> RestoreBatchesResponse:
    if not request.records:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "There are no records in the request.")
    services = context.services
    next_offset = services.restores.append(
        services, request.topic_id, request.partition_index, request.records
    )
    return RestoreBatchesResponse(next_offset=next_offset)


def fail(request: Any, error: KafkaError, context: RequestContext) -> RestoreBatchesResponse:
    return RestoreBatchesResponse(error_code=error.code, error_message=error.message)
