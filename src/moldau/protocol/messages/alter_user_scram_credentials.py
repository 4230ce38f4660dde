"""AlterUserScramCredentials: sets and removes SCRAM credentials.

The client salts and hashes the password, so it does not travel itself.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bytes, Int8, Int16, Int32, String, field, request, response, struct


@struct
class ScramCredentialDeletion:
    name: String = field()
    mechanism: Int8 = field()


@struct
class ScramCredentialUpsertion:
    name: String = field()
    mechanism: Int8 = field()
    iterations: Int32 = field()
    salt: Bytes = field()
    salted_password: Bytes = field()


@request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
class AlterUserScramCredentialsRequest:
    deletions: list[ScramCredentialDeletion] = field()
    upsertions: list[ScramCredentialUpsertion] = field()


@struct
class AlterUserScramCredentialsResult:
    user: String = field()
    error_code: Int16 = field()
    error_message: String | None = field()


@response(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
class AlterUserScramCredentialsResponse:
    throttle_time_ms: Int32 = field()
    results: list[AlterUserScramCredentialsResult] = field()
