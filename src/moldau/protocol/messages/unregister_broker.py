"""UnregisterBroker: forgets a broker that will not return."""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, field, request, response


@request(ApiKey.UNREGISTER_BROKER)
class UnregisterBrokerRequest:
    broker_id: Int32 = field()


@response(ApiKey.UNREGISTER_BROKER)
class UnregisterBrokerResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field()
