"""DescribeClientQuotas: the quotas of clients.

Quotas belong to users, client ids and addresses. A component matches by type: 0 an exact name, 1 the
default entity, 2 any name. The answer has null entries when it is an error.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Float64, Int8, Int16, Int32, String, field, request, response, struct


@struct
class ComponentData:
    entity_type: String = field()
    match_type: Int8 = field()
    match: String | None = field()


@request(ApiKey.DESCRIBE_CLIENT_QUOTAS)
class DescribeClientQuotasRequest:
    components: list[ComponentData] = field()
    strict: Bool = field()


@struct
class EntityData:
    entity_type: String = field()
    entity_name: String | None = field()


@struct
class ValueData:
    key: String = field()
    value: Float64 = field()


@struct
class EntryData:
    entity: list[EntityData] = field()
    values: list[ValueData] = field()


@response(ApiKey.DESCRIBE_CLIENT_QUOTAS)
class DescribeClientQuotasResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field()
    entries: list[EntryData] | None = field()
