"""AlterClientQuotas: sets and removes quotas.

A null name of an entity stands for the default. The entry of the request and that of the response share a
name in Kafka; here the latter is ``EntryDataResponse``.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Float64, Int16, Int32, String, field, request, response, struct


@struct
class EntityData:
    entity_type: String = field()
    entity_name: String | None = field()


@struct
class OpData:
    key: String = field()
    value: Float64 = field()
    remove: Bool = field()


@struct
class EntryData:
    entity: list[EntityData] = field()
    ops: list[OpData] = field()


@request(ApiKey.ALTER_CLIENT_QUOTAS)
class AlterClientQuotasRequest:
    entries: list[EntryData] = field()
    validate_only: Bool = field()


@struct
class EntryDataResponse:
    error_code: Int16 = field()
    error_message: String | None = field()
    entity: list[EntityData] = field()


@response(ApiKey.ALTER_CLIENT_QUOTAS)
class AlterClientQuotasResponse:
    throttle_time_ms: Int32 = field()
    entries: list[EntryDataResponse] = field()
