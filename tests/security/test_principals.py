"""Principals, distinguished names and the rules that map them, by the answers of a real broker."""

import pytest

from moldau.security.principals import (
    Principal,
    PrincipalMapping,
    distinguished_name,
    parse_principal,
    parse_super_users,
)

_RULES = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,"
    r"RULE:^CN=(.*?),OU=(.*?),O=.*?,L=(.*?),.*$/$1@$2-$3/U,DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "mapped"),
    [
        ("CN=Alice,OU=ServiceUsers,O=Moldau,C=CZ", "alice"),
        ("CN=Bob Novak,OU=Admin,O=Moldau,L=Praha,ST=Praha,C=CZ", "BOB NOVAK@ADMIN-PRAHA"),
        ("CN=localhost,OU=Brokers,O=Moldau,C=CZ", "CN=localhost,OU=Brokers,O=Moldau,C=CZ"),
    ],
)
def test_mapping_rules(name: str, mapped: str) -> None:
    assert PrincipalMapping(_RULES).name_of(name) == mapped


def test_without_a_rule_that_fits_there_is_no_name() -> None:
    with pytest.raises(ValueError, match="no rule"):
        PrincipalMapping(r"RULE:^CN=(.*)$/$1/").name_of("O=Moldau")


@pytest.mark.parametrize("rules", ["RULE:a/b", "NONE", "DEFAULT,,", "RULE:(/x/"])
def test_rules_that_cannot_be_read(rules: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        PrincipalMapping(rules)


def test_a_distinguished_name_reads_as_javas() -> None:
    subject = (
        (("countryName", "CZ"),),
        (("organizationName", "A, B"),),
        (("emailAddress", "a@b"),),
        (("commonName", "#a+b "),),
    )
    assert distinguished_name(subject) == (r"CN=\#a\+b\ ,1.2.840.113549.1.9.1=#1603614062,O=A\, B,C=CZ")


def test_one_common_name_cannot_pass_for_two() -> None:
    assert distinguished_name(((("commonName", "a,CN=admin"),),)) == r"CN=a\,CN=admin"


def test_principals_as_text() -> None:
    assert parse_principal("User:CN=a,O=b:c") == Principal("CN=a,O=b:c")
    assert str(Principal("x", "Group")) == "Group:x"
    assert parse_super_users("User:CN=a,O=b; User:root;") == {"User:CN=a,O=b", "User:root"}
