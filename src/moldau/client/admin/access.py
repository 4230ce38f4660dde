"""Who may do what, as an administrator sees and changes it: ACLs, SCRAM users, quotas and delegation tokens.

    async with await Cluster.open("127.0.0.1:9092") as cluster:
        access = Access(cluster)
        for acl in await access.list_acls(AclFilter(principal="User:ann")):
            print(acl)

Invariant: one method, one API, as in ``admin``; a refusal of the broker is a ``KafkaError`` with its words.
Passwords are salted and hashed here: they do not travel.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages import alter_client_quotas as alter_quotas_messages
from moldau.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from moldau.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from moldau.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from moldau.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from moldau.protocol.messages.describe_acls import DescribeAclsRequest
from moldau.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from moldau.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from moldau.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from moldau.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from moldau.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from moldau.security.acls import Acl, AclFilter
from moldau.security.delegation_tokens import DelegationToken
from moldau.security.principals import Principal
from moldau.security.scram import ScramMechanism, salted_password

EVERY_ACL = AclFilter()
#: How a filter of quotas matches the name of an entity.
EXACT, DEFAULT, ANY = 0, 1, 2


class ScramSetting(NamedTuple):
    """A password of a user for one mechanism."""

    user: str
    mechanism: ScramMechanism
    password: str
    salt: bytes
    iterations: int


class IssuedToken(NamedTuple):
    """A delegation token with its secret."""

    token: DelegationToken
    hmac: bytes


class Access:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def _ask(self, request: Any) -> Any:
        connection = await self._cluster.any()
        return await connection.send(request)

    # --- ACLs -----------------------------------------------------------------------------------

    async def list_acls(self, wanted: AclFilter = EVERY_ACL) -> list[Acl]:
        answer = await self._ask(DescribeAclsRequest(*wanted))
        _check(answer.error_code, answer.error_message)
        return [
            Acl(
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for each in answer.resources
            for acl in each.acls
        ]

    async def create_acls(self, acls: Sequence[Acl]) -> None:
        answer = await self._ask(CreateAclsRequest([AclCreation(*acl) for acl in acls]))
        for result in answer.results:
            _check(result.error_code, result.error_message)

    async def delete_acls(self, filters: Sequence[AclFilter]) -> list[Acl]:
        """The ACLs that are gone."""
        answer = await self._ask(DeleteAclsRequest([DeleteAclsFilter(*each) for each in filters]))
        gone = []
        for result in answer.filter_results:
            _check(result.error_code, result.error_message)
            for acl in result.matching_acls:
                _check(acl.error_code, acl.error_message)
                gone.append(
                    Acl(
                        acl.resource_type,
                        acl.resource_name,
                        acl.pattern_type,
                        acl.principal,
                        acl.host,
                        acl.operation,
                        acl.permission_type,
                    )
                )
        return gone

    # --- SCRAM users ----------------------------------------------------------------------------

    async def scram_users(self, users: Sequence[str] = ()) -> dict[str, dict[ScramMechanism, int]]:
        """Iterations by user and mechanism; users that do not exist are left out."""
        names = [UserName(user) for user in users] or None
        answer = await self._ask(DescribeUserScramCredentialsRequest(names))
        _check(answer.error_code, answer.error_message)
        found = {}
        for result in answer.results:
            if result.error_code != ErrorCode.RESOURCE_NOT_FOUND:
                _check(result.error_code, result.error_message)
                found[result.user] = {
                    ScramMechanism(info.mechanism): info.iterations for info in result.credential_infos
                }
        return found

    async def alter_scram_users(
        self, settings: Sequence[ScramSetting], removals: Sequence[tuple[str, ScramMechanism]] = ()
    ) -> None:
        upsertions = [
            ScramCredentialUpsertion(
                each.user,
                each.mechanism,
                each.iterations,
                each.salt,
                salted_password(each.mechanism.algorithm, each.password.encode(), each.salt, each.iterations),
            )
            for each in settings
        ]
        deletions = [ScramCredentialDeletion(*each) for each in removals]
        answer = await self._ask(AlterUserScramCredentialsRequest(deletions, upsertions))
        for result in answer.results:
            _check(result.error_code, result.error_message)

    # --- quotas ---------------------------------------------------------------------------------

    async def quotas(
        self, components: Sequence[tuple[str, int, str | None]], *, strict: bool
    ) -> list[tuple[dict[str, str | None], dict[str, float]]]:
        """Entities with their quotas; components are a type, how its name matches, and the name."""
        wanted = [ComponentData(*each) for each in components]
        answer = await self._ask(DescribeClientQuotasRequest(wanted, strict))
        _check(answer.error_code, answer.error_message)
        return [
            (
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: value.value for value in entry.values},
            )
            for entry in answer.entries or ()
        ]

    async def alter_quotas(
        self, entity: Mapping[str, str | None], changes: Mapping[str, float | None]
    ) -> None:
        """Sets quotas of an entity, and removes those with None."""
        parts = [alter_quotas_messages.EntityData(kind, name) for kind, name in entity.items()]
        operations = [OpData(key, value or 0.0, value is None) for key, value in changes.items()]
        answer = await self._ask(AlterClientQuotasRequest([EntryData(parts, operations)]))
        for entry in answer.entries:
            _check(entry.error_code, entry.error_message)

    # --- delegation tokens ----------------------------------------------------------------------

    async def create_token(
        self, renewers: Sequence[Principal], lifetime_ms: int, owner: Principal | None = None
    ) -> IssuedToken:
        request = CreateDelegationTokenRequest("", "")
        if owner is not None:
            request.owner_principal_type, request.owner_principal_name = owner.type, owner.name
        request.renewers = [CreatableRenewers(each.type, each.name) for each in renewers]
        request.max_lifetime_ms = lifetime_ms
        made = await self._ask(request)
        _check(made.error_code)
        token = DelegationToken(
            made.token_id,
            Principal(made.principal_name, made.principal_type),
            Principal(made.token_requester_principal_name, made.token_requester_principal_type),
            tuple(renewers),
            made.issue_timestamp_ms,
            made.expiry_timestamp_ms,
            made.max_timestamp_ms,
        )
        return IssuedToken(token, bytes(made.hmac))

    async def renew_token(self, hmac: bytes, period_ms: int) -> int:
        """When it ends now, in milliseconds since 1970."""
        answer = await self._ask(RenewDelegationTokenRequest(hmac, period_ms))
        _check(answer.error_code)
        return int(answer.expiry_timestamp_ms)

    async def expire_token(self, hmac: bytes, period_ms: int) -> int:
        answer = await self._ask(ExpireDelegationTokenRequest(hmac, period_ms))
        _check(answer.error_code)
        return int(answer.expiry_timestamp_ms)

    async def tokens(self, owners: Sequence[Principal] | None = None) -> list[IssuedToken]:
        wanted = None
        if owners is not None:
            wanted = [DescribeDelegationTokenOwner(each.type, each.name) for each in owners]
        answer = await self._ask(DescribeDelegationTokenRequest(wanted))
        _check(answer.error_code)
        return [
            IssuedToken(
                DelegationToken(
                    each.token_id,
                    Principal(each.principal_name, each.principal_type),
                    Principal(each.token_requester_principal_name, each.token_requester_principal_type),
                    tuple(Principal(one.principal_name, one.principal_type) for one in each.renewers),
                    each.issue_timestamp,
                    each.expiry_timestamp,
                    each.max_timestamp,
                ),
                bytes(each.hmac),
            )
            for each in answer.tokens
        ]


def _check(code: int, message: str | None = None) -> None:
    if code:
        raise KafkaError(ErrorCode(code), message or None)
