"""ListConfigResources: the resources that have configurations.

Version 0 lists client-metrics resources only; version 1 takes the types that are wanted, and an empty list
means all.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int8, Int16, Int32, String, field, request, response, struct


@request(ApiKey.LIST_CONFIG_RESOURCES)
class ListConfigResourcesRequest:
    resource_types: list[Int8] = field("1+")


@struct
class ConfigResource:
    resource_name: String = field()
    resource_type: Int8 = field("1+", default=16)


@response(ApiKey.LIST_CONFIG_RESOURCES)
class ListConfigResourcesResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    config_resources: list[ConfigResource] = field()
