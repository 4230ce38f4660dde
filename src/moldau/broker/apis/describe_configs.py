"""DescribeConfigs.

Behaviour: configs of topics, of this broker, of all brokers (an empty name), of groups, of client
metrics and of loggers, with where each value comes from and, when asked, the values behind it. A resource
that is named several times is answered once, with all that was asked of it. One of a type that nobody knows
refuses the whole request, as in Kafka.
"""

from typing import Any

from moldau.broker.access.asks import every_of
from moldau.broker.bounds.turns import Steps
from moldau.broker.config_resources import DESCRIBED, describe, describes_configs
from moldau.broker.context import RequestContext
from moldau.cluster.configs.descriptions import ConfigEntry
from moldau.protocol.errors import MALFORMED_REQUEST, ErrorCode, KafkaError
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

ASKS = (every_of(describes_configs, "resources", answers="results", says=True),)


def handle(request: DescribeConfigsRequest, context: RequestContext) -> Steps[DescribeConfigsResponse]:
    if any(each.resource_type not in DESCRIBED for each in request.resources):
        raise KafkaError(ErrorCode.INVALID_REQUEST, MALFORMED_REQUEST)
    response = DescribeConfigsResponse()
    for (resource_type, name), keys in _folded(request.resources).items():
        yield
        result = DescribeConfigsResult(0, None, resource_type, name)
        try:
            entries = describe(context.services, resource_type, name, keys)
            result.error_message = ""
            result.configs = [_entry(entry, request) for entry in entries]
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        response.results.append(result)
    return response


def _folded(resources: list[DescribeConfigsResource]) -> dict[tuple[int, str], set[str] | None]:
    """What is asked of each resource, by its type and name; None for everything."""
    asked: dict[tuple[int, str], set[str] | None] = {}
    for resource in resources:
        key = resource.resource_type, resource.resource_name
        names = set(resource.configuration_keys or ()) or None
        before = asked.setdefault(key, names)
        asked[key] = None if before is None or names is None else before | names
    return asked


def _entry(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = []
    if request.include_synonyms:
        synonyms = [DescribeConfigsSynonym(each.name, each.value, each.source) for each in entry.synonyms]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=synonyms,
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )


def fail(request: Any, error: KafkaError, context: RequestContext) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(error.code, error.message, each.resource_type, each.resource_name)
            for each in request.resources
        ]
    )
