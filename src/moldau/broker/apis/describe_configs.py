"""DescribeConfigs: v1-4.

Behaviour: configs of topics, of this broker, of all brokers (an empty name), of groups, of client
metrics and of loggers, with where each value comes from and, when asked, the values behind it.
"""

from typing import Any

from moldau.broker.config_resources import describe
from moldau.broker.context import RequestContext
from moldau.cluster.configs.descriptions import ConfigEntry
from moldau.protocol.errors import KafkaError
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
    response = DescribeConfigsResponse()
    for resource in request.resources:
        result = DescribeConfigsResult(0, None, resource.resource_type, resource.resource_name)
        try:
            entries = describe(
                context.services, resource.resource_type, resource.resource_name, resource.configuration_keys
            )
            result.error_message = ""
            result.configs = [_entry(entry, request) for entry in entries]
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        response.results.append(result)
    return response


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
