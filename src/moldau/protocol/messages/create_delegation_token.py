"""CreateDelegationToken: issues a delegation token.

From version 3 a super user may ask for a token that another principal owns.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bytes, Int16, Int32, Int64, String, field, request, response, struct


@struct
class CreatableRenewers:
    principal_type: String = field()
    principal_name: String = field()


@request(ApiKey.CREATE_DELEGATION_TOKEN)
class CreateDelegationTokenRequest:
    owner_principal_type: String | None = field("3+")
    owner_principal_name: String | None = field("3+")
    renewers: list[CreatableRenewers] = field()
    max_lifetime_ms: Int64 = field()


@response(ApiKey.CREATE_DELEGATION_TOKEN)
class CreateDelegationTokenResponse:
    error_code: Int16 = field()
    principal_type: String = field()
    principal_name: String = field()
    token_requester_principal_type: String = field("3+")
    token_requester_principal_name: String = field("3+")
    issue_timestamp_ms: Int64 = field()
    expiry_timestamp_ms: Int64 = field()
    max_timestamp_ms: Int64 = field()
    token_id: String = field()
    hmac: Bytes = field()
    throttle_time_ms: Int32 = field()
