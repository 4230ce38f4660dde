"""FindCoordinator: which broker coordinates a key.

Key types are 0 for a group, 1 for a transaction (version 1) and 2 for a share partition (version 6, keys
like ``group:topic id:partition``). From version 4 many keys are asked for at once and the answer is in
``coordinators``.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int8, Int16, Int32, String, field, request, response, struct


@request(ApiKey.FIND_COORDINATOR)
class FindCoordinatorRequest:
    key: String = field("0-3")
    key_type: Int8 = field("1+")
    coordinator_keys: list[String] = field("4+")


@struct
class Coordinator:
    key: String = field()
    node_id: Int32 = field()
    host: String = field()
    port: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field()


@response(ApiKey.FIND_COORDINATOR)
class FindCoordinatorResponse:
    throttle_time_ms: Int32 = field("1+")
    error_code: Int16 = field("0-3")
    error_message: String | None = field("1-3")
    node_id: Int32 = field("0-3")
    host: String = field("0-3")
    port: Int32 = field("0-3")
    coordinators: list[Coordinator] = field("4+")
