"""IncrementalAlterConfigs: changes single configuration keys.

Operations are 0 set, 1 delete, 2 append and 3 subtract; the last two are for lists.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int8, Int16, Int32, String, field, request, response, struct


@struct
class AlterableConfig:
    name: String = field()
    config_operation: Int8 = field()
    value: String | None = field()


@struct
class AlterConfigsResource:
    resource_type: Int8 = field()
    resource_name: String = field()
    configs: list[AlterableConfig] = field()


@request(ApiKey.INCREMENTAL_ALTER_CONFIGS)
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = field()
    validate_only: Bool = field()


@struct
class AlterConfigsResourceResponse:
    error_code: Int16 = field()
    error_message: String | None = field()
    resource_type: Int8 = field()
    resource_name: String = field()


@response(ApiKey.INCREMENTAL_ALTER_CONFIGS)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: Int32 = field()
    responses: list[AlterConfigsResourceResponse] = field()
