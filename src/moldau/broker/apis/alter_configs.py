"""AlterConfigs.

Behaviour: what is given takes the place of all that was set for the resource. Deprecated since
IncrementalAlterConfigs; kept for older clients.
"""

from typing import Any

from moldau.broker.access.asks import every_of
from moldau.broker.bounds.turns import Turn
from moldau.broker.config_resources import alters_configs, replace
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

ASKS = (every_of(alters_configs, "resources", answers="responses", refused_first=True, says=True),)


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    services = context.services
    # The controller decides; this broker checks what only it knows: its own settings and loggers.
    elsewhere = not services.is_controller and not request.validate_only
    checked: dict[int, AlterConfigsResource] = {}
    response = AlterConfigsResponse()
    turn = Turn()
    for resource in request.resources:
        await turn.give_way()
        try:
            asked = [(each.name, each.value) for each in resource.configs]
            await replace(
                services,
                resource.resource_type,
                resource.resource_name,
                asked,
                validate_only=request.validate_only or elsewhere,
            )
            checked[len(response.responses)] = resource
            response.responses.append(_result(resource, None))
        except KafkaError as error:
            response.responses.append(_result(resource, error))
    if elsewhere and checked:
        forwarded = AlterConfigsRequest(list(checked.values()))
        answer = await services.forwarding.forward(forwarded, context)
        for position, decided in zip(checked, answer.responses, strict=True):
            response.responses[position] = decided
    return response


def _result(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)


def fail(request: Any, error: KafkaError, context: RequestContext) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=[_result(each, error) for each in request.resources])
