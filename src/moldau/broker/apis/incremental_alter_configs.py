"""IncrementalAlterConfigs.

Behaviour: sets, unsets, and appends to or takes from lists, resource by resource: a refused one
changes nothing and does not affect the others. A resource that stands twice in the request is refused.
"""

from collections import Counter
from typing import Any

from moldau.broker.access.asks import every_of
from moldau.broker.bounds.turns import Turn
from moldau.broker.config_resources import alters_configs, change
from moldau.broker.context import RequestContext
from moldau.cluster.controller.config_changes import ConfigChange
from moldau.cluster.records import ResourceType
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

ASKS = (every_of(alters_configs, "resources", answers="responses", refused_first=True, says=True),)


async def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    seen = Counter((each.resource_type, each.resource_name) for each in request.resources)
    services = context.services
    # The controller decides; this broker checks what only it knows: its own settings and loggers.
    elsewhere = not services.is_controller and not request.validate_only
    checked: dict[int, AlterConfigsResource] = {}
    response = IncrementalAlterConfigsResponse()
    turn = Turn()
    for resource in request.resources:
        await turn.give_way()
        try:
            if seen[resource.resource_type, resource.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            asked = [ConfigChange(each.name, each.config_operation, each.value) for each in resource.configs]
            local = resource.resource_type == ResourceType.BROKER_LOGGER
            await change(
                services,
                resource.resource_type,
                resource.resource_name,
                asked,
                validate_only=request.validate_only or (elsewhere and not local),
            )
            if not local:
                checked[len(response.responses)] = resource
            response.responses.append(_result(resource, None))
        except KafkaError as error:
            response.responses.append(_result(resource, error))
    if elsewhere and checked:
        forwarded = IncrementalAlterConfigsRequest(list(checked.values()))
        answer = await services.forwarding.forward(forwarded, context)
        for position, decided in zip(checked, answer.responses, strict=True):
            response.responses[position] = decided
    return response


def _result(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)


def fail(request: Any, error: KafkaError, context: RequestContext) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=[_result(each, error) for each in request.resources])
