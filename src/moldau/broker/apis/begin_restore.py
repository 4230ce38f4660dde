"""BeginRestore, an API of our own.

Behaviour: opens a topic that is not visible yet, to be filled with the batches of a snapshot.
``moldau.restores.max`` limits how many are open at once; one that gets nothing for ``moldau.restore.idle.ms``
is given up.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.begin_restore import BeginRestoreRequest, BeginRestoreResponse
from moldau.security.acls import Operation

ASKS = (cluster(Operation.CREATE),)


def handle(request: BeginRestoreRequest, context: RequestContext) -> BeginRestoreResponse:
    services = context.services
    topic_id = services.restores.begin(
        services,
        request.name,
        [(each.log_start_offset, each.log_end_offset) for each in request.partitions],
        {config.name: config.value for config in request.configs},
    )
    return BeginRestoreResponse(topic_id=topic_id)


def fail(request: Any, error: KafkaError, context: RequestContext) -> BeginRestoreResponse:
    return BeginRestoreResponse(error_code=error.code, error_message=error.message)
