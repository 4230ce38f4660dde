"""DescribeUserScramCredentials.

Behaviour: which mechanisms users have a password for, and with how many iterations; never the passwords.
"""

from collections import Counter
from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from moldau.security.acls import Operation

ASKS = (cluster(Operation.DESCRIBE),)


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    known: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), credential in context.services.image.security.credentials.items():
        known.setdefault(user, []).append(CredentialInfo(mechanism, credential.iterations))
    asked = Counter([each.name for each in request.users or ()] or list(known))
    response = DescribeUserScramCredentialsResponse(error_message="")
    for user, times in asked.items():
        code, message, infos = ErrorCode.NONE, "", known.get(user, [])
        if times > 1:
            code, infos = ErrorCode.DUPLICATE_RESOURCE, []
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        elif not infos:
            code = ErrorCode.RESOURCE_NOT_FOUND
            message = f"Attempt to describe a user credential that does not exist: {user}"
        response.results.append(DescribeUserScramCredentialsResult(user, code, message, infos))
    return response


def fail(request: Any, error: KafkaError, context: RequestContext) -> DescribeUserScramCredentialsResponse:
    """As Kafka answers: one empty result for each user that was asked for."""
    return DescribeUserScramCredentialsResponse(
        error_code=error.code,
        error_message=error.message,
        results=[
            DescribeUserScramCredentialsResult("", error.code, error.message) for _ in request.users or ()
        ],
    )
