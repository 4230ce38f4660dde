"""Kerberos names and the rules that make users' names of them, as Kafka reads them."""

import pytest

from moldau.security.kerberos_names import KerberosName, KerberosRules, parse_name

_BOB = "RULE:[2:$1-$2](bob-admin)s/-admin/_adm/"


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        (["DEFAULT"], "alice@HERE", "alice"),
        (["DEFAULT"], "alice", "alice"),
        (["DEFAULT"], "kafka/host@HERE", "kafka"),
        ([_BOB, "DEFAULT"], "bob/admin@HERE", "bob_adm"),
        ([_BOB, "DEFAULT"], "bob@HERE", "bob"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "ann@OTHER", "ann"),
        (["RULE:[1:$1](.*)s/a/b/"], "aa@HERE", "ba"),
        (["RULE:[1:$1](.*)s/a/b/g"], "aa@HERE", "bb"),
        (["RULE:[1:$1]/L"], "ANN@HERE", "ann"),
        (["RULE:[1:$1]/U"], "ann@HERE", "ANN"),
        (["RULE:[1:$1](.*)s/([a-z])n(.)/$2$1/"], "ann@HERE", "na"),
        (["RULE:[1:$1](.*)s/([A-Z]*)/$1/g/L"], "ANN@HERE", "ann"),
    ],
)
def test_users(rules: list[str], name: str, user: str) -> None:
    assert KerberosRules(rules, "HERE").user(name) == user


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        (["DEFAULT"], "alice@OTHER"),
        ([_BOB], "bob@HERE"),
        ([], "alice@HERE"),
        (["DEFAULT"], "a/b/c@HERE"),
        (["DEFAULT"], "/x@HERE"),
        (["RULE:[1:$2]"], "ann@HERE"),
        (["RULE:[1:$1@$0]"], "ann@HERE"),  # a user has no realm
    ],
)
def test_names_without_a_user(rules: list[str], name: str) -> None:
    with pytest.raises(ValueError, match=r"rule|no Kerberos name"):
        KerberosRules(rules, "HERE").user(name)


@pytest.mark.parametrize("rule", ["RULE", "RULE:[x:$1]", "RULE:[1:$1](", "default", "RULE:[1:$1](*)"])
def test_rules_that_are_none(rule: str) -> None:
    with pytest.raises(ValueError, match=r"principal\.to\.local\.rules has"):
        KerberosRules([rule], "HERE")


def test_parts() -> None:
    assert parse_name("kafka/host@HERE") == KerberosName(("kafka", "host"), "HERE")
