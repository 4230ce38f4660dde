"""AlterConfigs.

Behaviour: what is given takes the place of all that was set for the resource. Deprecated since
IncrementalAlterConfigs; kept for older clients.
"""

from typing import Any

from moldau.broker.config_resources import replace
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    response = AlterConfigsResponse()
    for resource in request.resources:
        try:
            asked = [(each.name, each.value) for each in resource.configs]
            await replace(
                context.services, resource.resource_type, resource.resource_name, asked, request.validate_only
            )
            response.responses.append(_result(resource, None))
        except KafkaError as error:
            response.responses.append(_result(resource, error))
    return response


def _result(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)


def fail(request: Any, error: KafkaError, context: RequestContext) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=[_result(each, error) for each in request.resources])
