"""IncrementalAlterConfigs.

Behaviour: sets, unsets, and appends to or takes from lists, resource by resource: a refused one
changes nothing and does not affect the others. A resource that stands twice in the request is refused.
"""

from collections import Counter
from typing import Any

from moldau.broker.config_resources import change
from moldau.broker.context import RequestContext
from moldau.cluster.controller.config_changes import ConfigChange
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    seen = Counter((each.resource_type, each.resource_name) for each in request.resources)
    response = IncrementalAlterConfigsResponse()
    for resource in request.resources:
        try:
            if seen[resource.resource_type, resource.resource_name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            asked = [ConfigChange(each.name, each.config_operation, each.value) for each in resource.configs]
            await change(
                context.services, resource.resource_type, resource.resource_name, asked, request.validate_only
            )
            response.responses.append(_result(resource, None))
        except KafkaError as error:
            response.responses.append(_result(resource, error))
    return response


def _result(resource: AlterConfigsResource, error: KafkaError | None) -> AlterConfigsResourceResponse:
    code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    return AlterConfigsResourceResponse(code, message, resource.resource_type, resource.resource_name)


def fail(request: Any, error: KafkaError, context: RequestContext) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=[_result(each, error) for each in request.resources])
