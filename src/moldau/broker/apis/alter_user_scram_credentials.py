"""AlterUserScramCredentials.

Behaviour: sets and removes what is kept of users' passwords; each user has its own result, and may stand in
the request once. Open connections stay open.
"""

from collections import Counter
from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.cluster.controller.security import ScramChange, change_credentials
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from moldau.security.acls import Operation
from moldau.security.scram import (
    LEAST_ITERATIONS,
    MOST_ITERATIONS,
    ScramMechanism,
    credential_from_salted,
)

ASKS = (cluster(Operation.ALTER, said="Request AlterUserScramCredentials needs ALTER permission."),)


async def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    errors: dict[str, KafkaError | None] = dict.fromkeys(_users(request))
    changes: list[ScramChange] = []
    # A user in a removal and a setting fails as the removal does, which is decided on the metadata.
    for asked in (request.deletions, request.upsertions):
        for user, times in Counter(each.name for each in asked).items():
            if times > 1:
                message = "A user credential cannot be altered twice in the same request"
                errors[user] = KafkaError(ErrorCode.DUPLICATE_RESOURCE, message)
    for removal in request.deletions:
        try:
            changes.append(ScramChange(removal.name, _mechanism(removal.name, removal.mechanism), None))
        except KafkaError as error:
            errors[removal.name] = errors[removal.name] or error.without_stack()
    for setting in request.upsertions:
        try:
            mechanism = _mechanism(setting.name, setting.mechanism)
            if setting.iterations < LEAST_ITERATIONS:
                raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
            if setting.iterations > MOST_ITERATIONS:
                raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
            if not setting.salted_password:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            salt, salted = bytes(setting.salt), bytes(setting.salted_password)
            credential = credential_from_salted(mechanism, salt, salted, setting.iterations)
            changes.append(ScramChange(setting.name, mechanism, credential))
        except KafkaError as error:
            errors[setting.name] = errors[setting.name] or error.without_stack()
    changes = [change for change in changes if errors[change.user] is None]
    if changes:
        missing = await context.services.metadata.execute(lambda image: change_credentials(image, changes))
        for user in missing:
            message = "Attempt to delete a user credential that does not exist"
            errors[user] = KafkaError(ErrorCode.RESOURCE_NOT_FOUND, message)
    return AlterUserScramCredentialsResponse(results=[_result(*each) for each in errors.items()])


def _mechanism(user: str, number: int) -> ScramMechanism:
    if not user:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    try:
        return ScramMechanism(number)
    except ValueError:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism") from None


def _users(request: AlterUserScramCredentialsRequest) -> list[str]:
    removed = [each.name for each in request.deletions]
    return list(dict.fromkeys(removed + [each.name for each in request.upsertions]))


def _result(user: str, error: KafkaError | None) -> AlterUserScramCredentialsResult:
    code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    return AlterUserScramCredentialsResult(user, code, message)


def fail(request: Any, error: KafkaError, context: RequestContext) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user in _users(request)])
