"""The image of security: records in, an immutable image out, and records that lead from one to another."""

from moldau.cluster.image import EMPTY_IMAGE, difference
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
from moldau.security.principals import Principal
from moldau.security.quotas import QuotaEntity
from moldau.security.scram import ScramMechanism, credential

_ACLS = [Acl(2, name, 3, "User:a", "*", 3, 3) for name in ("a", "b", "c")]
_CREDENTIAL = credential(ScramMechanism.SHA_256, "pencil", b"salt")
_TOKEN = DelegationToken("id", Principal("ann"), Principal("ann"), (), 1, 2, 3)
_RECORDS: list[Record] = [
    *(AclAdded(acl) for acl in _ACLS),
    ScramCredentialSet("ann", _CREDENTIAL),
    ClientQuotaSet(QuotaEntity("ann"), "producer_byte_rate", 5.0),
    ClientQuotaSet(QuotaEntity("ann"), "consumer_byte_rate", 6.0),
    DelegationTokenSet(_TOKEN),
]


def test_each_record_changes_what_it_is_about() -> None:
    image = EMPTY_IMAGE.apply_all(_RECORDS)
    assert list(image.security.acls) == _ACLS
    assert image.security.credentials == {("ann", ScramMechanism.SHA_256): _CREDENTIAL}
    assert image.security.quotas == {
        QuotaEntity("ann"): {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}
    }
    assert image.security.tokens == {"id": _TOKEN}
    assert EMPTY_IMAGE.security.acls == {}


def test_removing_one_acl_of_many_leaves_the_others() -> None:
    image = EMPTY_IMAGE.apply_all(_RECORDS).apply(AclRemoved(_ACLS[1])).apply(AclRemoved(_ACLS[1]))
    assert list(image.security.acls) == [_ACLS[0], _ACLS[2]]


def test_everything_can_be_removed() -> None:
    removals: list[Record] = [
        *(AclRemoved(acl) for acl in _ACLS),
        ScramCredentialRemoved("ann", ScramMechanism.SHA_256),
        ClientQuotaSet(QuotaEntity("ann"), "producer_byte_rate", None),
        ClientQuotaSet(QuotaEntity("ann"), "consumer_byte_rate", None),
        DelegationTokenRemoved("id"),
    ]
    assert EMPTY_IMAGE.apply_all(_RECORDS).apply_all(removals).security == EMPTY_IMAGE.security


def test_a_snapshot_and_a_difference_lead_to_the_same_image() -> None:
    image = EMPTY_IMAGE.apply_all(_RECORDS)
    assert EMPTY_IMAGE.apply_all(image.snapshot()).security == image.security
    other = EMPTY_IMAGE.apply_all([AclAdded(_ACLS[2]), ClientQuotaSet(QuotaEntity("bob"), "x", 1.0)])
    assert image.apply_all(difference(image, other)).security == other.security


def test_what_is_not_touched_is_shared() -> None:
    image = EMPTY_IMAGE.apply_all(_RECORDS)
    assert image.apply(AclAdded(_ACLS[0]._replace(host="h"))).security.tokens is image.security.tokens
