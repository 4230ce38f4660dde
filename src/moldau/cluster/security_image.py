"""What the metadata says about security: ACLs, SCRAM credentials, quotas and delegation tokens.

Invariant: an image never changes; the draft copies each map at the first record that touches it. Removing
what is not there changes nothing.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

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
from moldau.security.acls import Acl
from moldau.security.delegation_tokens import DelegationToken
from moldau.security.quotas import QuotaEntity
from moldau.security.scram import ScramCredential, ScramMechanism

_EMPTY: Mapping[Any, Any] = MappingProxyType({})


class SecurityImage(NamedTuple):
    #: An ordered set.
    acls: Mapping[Acl, None] = _EMPTY
    credentials: Mapping[tuple[str, ScramMechanism], ScramCredential] = _EMPTY
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = _EMPTY
    tokens: Mapping[str, DelegationToken] = _EMPTY


NO_SECURITY = SecurityImage()


def security_snapshot(image: SecurityImage) -> list[Record]:
    """Records that lead from nothing to this image."""
    return security_difference(NO_SECURITY, image)


def security_difference(old: SecurityImage, new: SecurityImage) -> list[Record]:
    """Records that lead from one image to the other."""
    records: list[Record] = [AclRemoved(acl) for acl in old.acls if acl not in new.acls]
    records += [AclAdded(acl) for acl in new.acls if acl not in old.acls]
    records += [ScramCredentialRemoved(*key) for key in old.credentials if key not in new.credentials]
    records += [
        ScramCredentialSet(user, credential)
        for (user, mechanism), credential in new.credentials.items()
        if old.credentials.get((user, mechanism)) != credential
    ]
    for entity, values in old.quotas.items():
        after = new.quotas.get(entity, _EMPTY)
        records += [ClientQuotaSet(entity, name, None) for name in values if name not in after]
    for entity, values in new.quotas.items():
        before = old.quotas.get(entity, _EMPTY)
        records += [
            ClientQuotaSet(entity, name, value) for name, value in values.items() if before.get(name) != value
        ]
    records += [DelegationTokenRemoved(token_id) for token_id in old.tokens if token_id not in new.tokens]
    records += [
        DelegationTokenSet(token)
        for token_id, token in new.tokens.items()
        if old.tokens.get(token_id) != token
    ]
    return records


class SecurityDraft:
    """The next image while records are applied."""

    __slots__ = ("_acls", "_credentials", "_image", "_quotas", "_tokens")

    def __init__(self, image: SecurityImage) -> None:
        self._image = image
        self._acls: dict[Acl, None] | None = None
        self._credentials: dict[tuple[str, ScramMechanism], ScramCredential] | None = None
        self._quotas: dict[QuotaEntity, Mapping[str, float]] | None = None
        self._tokens: dict[str, DelegationToken] | None = None

    def apply(self, record: Record) -> None:
        _APPLY[type(record)](self, record)

    def frozen(self) -> SecurityImage:
        image = self._image
        if self._acls is None and self._credentials is None and self._quotas is None and self._tokens is None:
            return image
        return SecurityImage(
            image.acls if self._acls is None else self._acls,
            image.credentials if self._credentials is None else self._credentials,
            image.quotas if self._quotas is None else self._quotas,
            image.tokens if self._tokens is None else self._tokens,
        )

    def _acl_added(self, record: AclAdded) -> None:
        self._acl_map()[record.acl] = None

    def _acl_removed(self, record: AclRemoved) -> None:
        self._acl_map().pop(record.acl, None)

    def _acl_map(self) -> dict[Acl, None]:
        if self._acls is None:
            self._acls = dict(self._image.acls)
        return self._acls

    def _credential_set(self, record: ScramCredentialSet) -> None:
        self._credential_map()[record.user, record.credential.mechanism] = record.credential

    def _credential_removed(self, record: ScramCredentialRemoved) -> None:
        self._credential_map().pop((record.user, record.mechanism), None)

    def _credential_map(self) -> dict[tuple[str, ScramMechanism], ScramCredential]:
        if self._credentials is None:
            self._credentials = dict(self._image.credentials)
        return self._credentials

    def _quota_set(self, record: ClientQuotaSet) -> None:
        if self._quotas is None:
            self._quotas = dict(self._image.quotas)
        values = dict(self._quotas.get(record.entity, _EMPTY))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            self._quotas[record.entity] = values
        else:
            self._quotas.pop(record.entity, None)

    def _token_set(self, record: DelegationTokenSet) -> None:
        self._token_map()[record.token.token_id] = record.token

    def _token_removed(self, record: DelegationTokenRemoved) -> None:
        self._token_map().pop(record.token_id, None)

    def _token_map(self) -> dict[str, DelegationToken]:
        if self._tokens is None:
            self._tokens = dict(self._image.tokens)
        return self._tokens


_APPLY: Mapping[type[Any], Callable[[SecurityDraft, Any], None]] = {
    AclAdded: SecurityDraft._acl_added,
    AclRemoved: SecurityDraft._acl_removed,
    ScramCredentialSet: SecurityDraft._credential_set,
    ScramCredentialRemoved: SecurityDraft._credential_removed,
    ClientQuotaSet: SecurityDraft._quota_set,
    DelegationTokenSet: SecurityDraft._token_set,
    DelegationTokenRemoved: SecurityDraft._token_removed,
}
