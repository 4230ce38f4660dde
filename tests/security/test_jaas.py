"""JAAS lines of the books."""

import pytest

from moldau.security.jaas import (
    check_login_module,
    client_setting,
    file_of_options,
    jaas_options,
    parse_jaas,
    plain_users,
    server_settings,
    zookeeper_settings,
)

_PLAIN = """org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="admin" password="admin-secret" user_admin='admin-secret' user_a.b="se=c;r\\"et";"""


def test_users_of_a_plain_login_module() -> None:
    assert plain_users(_PLAIN) == {"admin": "admin-secret", "a.b": 'se=c;r"et'}


def test_module_and_options() -> None:
    module = parse_jaas("x.ScramLoginModule required tokenauth=true;")
    assert module.name == "x.ScramLoginModule"
    assert module.options == {"tokenauth": "true"}
    assert jaas_options("") == {}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('x.PlainLoginModule required user_a="s3cret";', None),
        ('x.PlainLoginModule required user_a="s3cret"', "semicolon"),
        ('com.sun.security.auth.module.JndiLoginModule required url="ldap://s3cret";', "must be one of"),
        ("s3cret", "a JAAS line reads"),
        ("", "a JAAS line reads"),
    ],
)
def test_a_line_that_is_kept(line: str, reason: str | None) -> None:
    if reason is None:
        check_login_module(line)
    else:
        with pytest.raises(ValueError, match=reason) as caught:
            check_login_module(line)
        assert "s3cret" not in str(caught.value)


def test_an_error_shows_no_secret() -> None:
    with pytest.raises(ValueError, match="a JAAS line reads") as raised:
        parse_jaas('password="hunter2"')
    assert "hunter2" not in str(raised.value)


_FILE = """
/* of a book; */
KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="admin" password="admin-secret"   // not a secret
        user_admin="a//b;}  c" user_alice="alice-secret";
    org.apache.kafka.common.security.scram.ScramLoginModule required username="x" password="y";
};
internal.KafkaServer { com.sun.security.auth.module.Krb5LoginModule required keyTab="/k"; };
KafkaClient { org.apache.kafka.common.security.plain.PlainLoginModule required username="c" password="d"; };
Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="z" password="z"; };
"""


def test_a_file_as_settings_of_a_broker() -> None:
    settings = server_settings(_FILE)
    assert set(settings) == {
        "plain.sasl.jaas.config",
        "scram-sha-256.sasl.jaas.config",
        "scram-sha-512.sasl.jaas.config",
        "listener.name.internal.gssapi.sasl.jaas.config",
    }
    assert plain_users(settings["plain.sasl.jaas.config"]) == {"admin": "a//b;}  c", "alice": "alice-secret"}


def test_the_clients_section() -> None:
    line = client_setting(_FILE)
    assert line is not None
    assert jaas_options(line) == {"username": "c", "password": "d"}
    assert client_setting("KafkaServer { m required; };") is None


@pytest.mark.parametrize(
    "text", ["KafkaServer {", "nothing", "KafkaServer { secret };;", "A { m maybe b=c; };"]
)
def test_files_that_are_none_are_refused_without_a_secret(text: str) -> None:
    with pytest.raises(ValueError, match="JAAS") as raised:
        server_settings(f'{text} x="hunter2"')
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ("-Xmx1g -Djava.security.auth.login.config=/etc/jaas.conf -Dx=y", "/etc/jaas.conf"),
        ('-Djava.security.auth.login.config=="/a b"', "/a b"),
        ("-Xmx1g", None),
        ("", None),
    ],
)
def test_the_file_of_kafka_opts(options: str, path: str | None) -> None:
    assert file_of_options(options) == path


CLIENT = """
Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="a;b"; };
Other { Krb5LoginModule required principal="p"; };
"""


@pytest.mark.parametrize(
    ("options", "line", "service"),
    [
        (
            "",
            'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="a;b";',
            None,
        ),
        ("-Dzookeeper.sasl.clientconfig=Other", 'Krb5LoginModule required principal="p";', None),
        (
            "-Dzookeeper.sasl.clientconfig=Other -Dzookeeper.sasl.client.username='zk'",
            'Krb5LoginModule required principal="p";',
            "zk",
        ),
        ("-Dzookeeper.sasl.client=false", None, None),
        ("-Dzookeeper.sasl.clientconfig=None", None, None),
    ],
)
def test_the_login_at_zookeeper(options: str, line: str | None, service: str | None) -> None:
    wanted = {"moldau.zookeeper.sasl.jaas.config": line, "moldau.zookeeper.sasl.service.name": service}
    assert zookeeper_settings(CLIENT, options) == {
        name: value for name, value in wanted.items() if value is not None
    }
