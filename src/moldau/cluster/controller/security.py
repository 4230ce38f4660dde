"""The controller's commands on ACLs, credentials, quotas and delegation tokens.

Invariant: as all commands: the image in, records out, and no records where nothing changes.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from moldau.cluster.controller.commands import ControllerResult
from moldau.cluster.image import ClusterImage
from moldau.cluster.records import (
    AclAdded,
    AclRemoved,
    ClientQuotaSet,
    DelegationTokenRemoved,
    DelegationTokenSet,
    Record,
    ScramCredentialRemoved,
    ScramCredentialSet,
)
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.security.acls import Acl, AclFilter
from moldau.security.delegation_tokens import DelegationToken
from moldau.security.quotas import QuotaEntity
from moldau.security.scram import ScramCredential, ScramMechanism


def add_acls(image: ClusterImage, acls: Sequence[Acl]) -> list[Record]:
    """ACLs that have been checked."""
    return [AclAdded(acl) for acl in dict.fromkeys(acls) if acl not in image.security.acls]


def remove_acls(image: ClusterImage, filters: Sequence[AclFilter]) -> ControllerResult[list[list[Acl]]]:
    """The response has the ACLs that each filter matched."""
    matched = [[acl for acl in image.security.acls if wanted.matches(acl)] for wanted in filters]
    gone = dict.fromkeys(acl for acls in matched for acl in acls)
    return ControllerResult(tuple(AclRemoved(acl) for acl in gone), matched)


class ScramChange(NamedTuple):
    """A new credential of a user, or None to remove the one that it has."""

    user: str
    mechanism: ScramMechanism
    credential: ScramCredential | None


def change_credentials(image: ClusterImage, changes: Sequence[ScramChange]) -> ControllerResult[list[str]]:
    """The response names users that have nothing to remove; for these nothing changes."""
    known = image.security.credentials
    missing = [
        change.user
        for change in changes
        if change.credential is None and (change.user, change.mechanism) not in known
    ]
    records: list[Record] = []
    for change in changes:
        if change.user in missing:
            continue
        if change.credential is None:
            records.append(ScramCredentialRemoved(change.user, change.mechanism))
        elif known.get((change.user, change.mechanism)) != change.credential:
            records.append(ScramCredentialSet(change.user, change.credential))
    return ControllerResult(tuple(records), missing)


# --- Delegation tokens -----------------------------------------------------------------------------------


def set_token(image: ClusterImage, token: DelegationToken) -> list[Record]:
    return [] if image.security.tokens.get(token.token_id) == token else [DelegationTokenSet(token)]


def change_token(
    image: ClusterImage, token_id: str, change: Callable[[DelegationToken], DelegationToken]
) -> ControllerResult[DelegationToken]:
    """The token as it is now, changed; KafkaError for one that was ended meanwhile: it does not come back."""
    token = image.security.tokens.get(token_id)
    if token is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    changed = change(token)
    return ControllerResult(tuple(set_token(image, changed)), changed)


def remove_token(image: ClusterImage, token_id: str) -> list[Record]:
    return [DelegationTokenRemoved(token_id)] if token_id in image.security.tokens else []


def remove_expired_tokens(image: ClusterImage, now_ms: int) -> list[Record]:
    return [
        DelegationTokenRemoved(token.token_id)
        for token in image.security.tokens.values()
        if token.expires_at_ms < now_ms
    ]


# --- Quotas ----------------------------------------------------------------------------------------------


def change_quotas(
    image: ClusterImage, changes: Sequence[tuple[QuotaEntity, str, float | None]]
) -> list[Record]:
    """Sets quotas that have been checked, and removes those with None."""
    return [
        ClientQuotaSet(entity, name, value)
        for entity, name, value in changes
        if image.security.quotas.get(entity, {}).get(name) != value
    ]
