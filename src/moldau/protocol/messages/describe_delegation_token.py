"""DescribeDelegationToken: delegation tokens by owner.

A null list of owners asks for every token that the caller may see.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bytes, Int16, Int32, Int64, String, field, request, response, struct


@struct
class DescribeDelegationTokenOwner:
    principal_type: String = field()
    principal_name: String = field()


@request(ApiKey.DESCRIBE_DELEGATION_TOKEN)
class DescribeDelegationTokenRequest:
    owners: list[DescribeDelegationTokenOwner] | None = field()


@struct
class DescribedDelegationTokenRenewer:
    principal_type: String = field()
    principal_name: String = field()


@struct
class DescribedDelegationToken:
    principal_type: String = field()
    principal_name: String = field()
    token_requester_principal_type: String = field("3+")
    token_requester_principal_name: String = field("3+")
    issue_timestamp: Int64 = field()
    expiry_timestamp: Int64 = field()
    max_timestamp: Int64 = field()
    token_id: String = field()
    hmac: Bytes = field()
    renewers: list[DescribedDelegationTokenRenewer] = field()


@response(ApiKey.DESCRIBE_DELEGATION_TOKEN)
class DescribeDelegationTokenResponse:
    error_code: Int16 = field()
    tokens: list[DescribedDelegationToken] = field()
    throttle_time_ms: Int32 = field()
