"""DescribeUserScramCredentials: which SCRAM credentials users have.

A null or empty list asks for all users. Mechanisms are 1 for SCRAM-SHA-256 and 2 for SCRAM-SHA-512;
passwords are never returned.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int8, Int16, Int32, String, field, request, response, struct


@struct
class UserName:
    name: String = field()


@request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
class DescribeUserScramCredentialsRequest:
    users: list[UserName] | None = field()


@struct
class CredentialInfo:
    mechanism: Int8 = field()
    iterations: Int32 = field()


@struct
class DescribeUserScramCredentialsResult:
    user: String = field()
    error_code: Int16 = field()
    error_message: String | None = field()
    credential_infos: list[CredentialInfo] = field()


@response(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field()
    results: list[DescribeUserScramCredentialsResult] = field()
