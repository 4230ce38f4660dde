"""EndRestore, an API of our own.

Behaviour: with ``commit`` the restored topic is flushed, made known and ready when the answer goes out; a
transaction that is open at its end is aborted. Without, what was sent is removed.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.end_restore import EndRestoreRequest, EndRestoreResponse, RestoredPartition
from moldau.security.acls import Operation

ASKS = (cluster(Operation.CREATE),)


async def handle(request: EndRestoreRequest, context: RequestContext) -> EndRestoreResponse:
    services = context.services
    if not request.commit:
        await services.restores.abandon(services, request.topic_id)
        return EndRestoreResponse()
    made = await services.restores.commit(services, request.topic_id)
    return EndRestoreResponse(
        partitions=[
            RestoredPartition(index, each.log_start_offset, each.log_end_offset)
            for index, each in enumerate(made.partitions)
        ]
    )


def fail(request: Any, error: KafkaError, context: RequestContext) -> EndRestoreResponse:
    return EndRestoreResponse(error_code=error.code, error_message=error.message)
