"""DescribeConfigs: the configurations of resources.

Resources are topics, brokers, their loggers, groups and client-metrics subscriptions. A null list of keys
asks for every key. Types and documentation come with version 3.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int8, Int16, Int32, String, field, request, response, struct


@struct
class DescribeConfigsResource:
    resource_type: Int8 = field()
    resource_name: String = field()
    configuration_keys: list[String] | None = field()


@request(ApiKey.DESCRIBE_CONFIGS)
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = field()
    include_synonyms: Bool = field()
    include_documentation: Bool = field("3+")


@struct
class DescribeConfigsSynonym:
    name: String = field()
    value: String | None = field()
    source: Int8 = field()


@struct
class DescribeConfigsResourceResult:
    name: String = field()
    value: String | None = field()
    read_only: Bool = field()
    config_source: Int8 = field(default=-1)
    is_sensitive: Bool = field()
    synonyms: list[DescribeConfigsSynonym] = field()
    config_type: Int8 = field("3+")
    documentation: String | None = field("3+")


@struct
class DescribeConfigsResult:
    error_code: Int16 = field()
    error_message: String | None = field()
    resource_type: Int8 = field()
    resource_name: String = field()
    configs: list[DescribeConfigsResourceResult] = field()


@response(ApiKey.DESCRIBE_CONFIGS)
class DescribeConfigsResponse:
    throttle_time_ms: Int32 = field()
    results: list[DescribeConfigsResult] = field()
