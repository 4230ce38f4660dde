"""ExpireDelegationToken: ends the life of a delegation token.

The token is named by its HMAC; a negative period ends it at once.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bytes, Int16, Int32, Int64, field, request, response


@request(ApiKey.EXPIRE_DELEGATION_TOKEN)
class ExpireDelegationTokenRequest:
    hmac: Bytes = field()
    expiry_time_period_ms: Int64 = field()


@response(ApiKey.EXPIRE_DELEGATION_TOKEN)
class ExpireDelegationTokenResponse:
    error_code: Int16 = field()
    expiry_timestamp_ms: Int64 = field()
    throttle_time_ms: Int32 = field()
