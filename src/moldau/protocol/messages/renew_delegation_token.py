"""RenewDelegationToken: extends the life of a delegation token.

The token is named by its HMAC.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bytes, Int16, Int32, Int64, field, request, response


@request(ApiKey.RENEW_DELEGATION_TOKEN)
class RenewDelegationTokenRequest:
    hmac: Bytes = field()
    renew_period_ms: Int64 = field()


@response(ApiKey.RENEW_DELEGATION_TOKEN)
class RenewDelegationTokenResponse:
    error_code: Int16 = field()
    expiry_timestamp_ms: Int64 = field()
    throttle_time_ms: Int32 = field()
