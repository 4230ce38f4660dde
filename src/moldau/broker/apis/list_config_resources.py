"""ListConfigResources.

Behaviour: the names of resources that have, or may have, configs. v0 knows client metrics only;
v1 takes the types that are wanted, none meaning all.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.cluster.records import ResourceType
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from moldau.security.acls import Operation

ASKS = (cluster(Operation.DESCRIBE_CONFIGS),)
_ALL = tuple(int(each) for each in ResourceType)


def handle(request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
    wanted = set(request.resource_types) or set(_ALL)
    if context.api_version == 0:
        wanted = {int(ResourceType.CLIENT_METRICS)}
    if any(each not in _ALL for each in wanted):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    image = context.services.image
    found: list[ConfigResource] = []
    for resource_type, name in image.overrides:
        if resource_type in wanted and resource_type in (ResourceType.GROUP, ResourceType.CLIENT_METRICS):
            found.append(ConfigResource(name, resource_type))
    for resource_type in (ResourceType.BROKER_LOGGER, ResourceType.BROKER):
        if resource_type in wanted:
            found += [ConfigResource(str(broker_id), resource_type) for broker_id in image.brokers]
    if ResourceType.TOPIC in wanted:
        found += [ConfigResource(name, ResourceType.TOPIC) for name in image.topics_by_name]
    return ListConfigResourcesResponse(config_resources=found)


def fail(request: Any, error: KafkaError, context: RequestContext) -> ListConfigResourcesResponse:
    return ListConfigResourcesResponse(error_code=error.code)
