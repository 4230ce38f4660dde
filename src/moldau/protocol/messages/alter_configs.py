"""AlterConfigs: replaces the whole configuration of resources.

What is not listed is reset; deprecated in favour of IncrementalAlterConfigs, which changes single keys.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int8, Int16, Int32, String, field, request, response, struct


@struct
class AlterableConfig:
    name: String = field()
    value: String | None = field()


@struct
class AlterConfigsResource:
    resource_type: Int8 = field()
    resource_name: String = field()
    configs: list[AlterableConfig] = field()


@request(ApiKey.ALTER_CONFIGS)
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = field()
    validate_only: Bool = field()


@struct
class AlterConfigsResourceResponse:
    error_code: Int16 = field()
    error_message: String | None = field()
    resource_type: Int8 = field()
    resource_name: String = field()


@response(ApiKey.ALTER_CONFIGS)
class AlterConfigsResponse:
    throttle_time_ms: Int32 = field()
    responses: list[AlterConfigsResourceResponse] = field()
