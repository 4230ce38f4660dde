"""JAAS lines of the books."""

import pytest

from moldau.security.jaas import jaas_options, parse_jaas, plain_users

_PLAIN = """org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="admin" password="admin-secret" user_admin='admin-secret' user_a.b="se=c;r\\"et";"""


def test_users_of_a_plain_login_module() -> None:
    assert plain_users(_PLAIN) == {"admin": "admin-secret", "a.b": 'se=c;r"et'}


def test_module_and_options() -> None:
    module = parse_jaas("x.ScramLoginModule required tokenauth=true;")
    assert module.name == "x.ScramLoginModule"
    assert module.options == {"tokenauth": "true"}
    assert jaas_options("") == {}


def test_an_error_shows_no_secret() -> None:
    with pytest.raises(ValueError, match="a JAAS line reads") as raised:
        parse_jaas('password="hunter2"')
    assert "hunter2" not in str(raised.value)
