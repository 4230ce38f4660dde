"""How a broker reaches ZooKeeper, from its settings."""

import pytest

from moldau.base.settings import SettingError
from moldau.cluster.configs.broker_settings import load_broker_settings
from moldau.cluster.store.zookeeper.settings import ZooKeeperLogin, ZooKeeperSettings, zookeeper_settings
from moldau.security.sasl.client import Credentials


def parsed(**given: str) -> ZooKeeperSettings | None:
    return zookeeper_settings(
        load_broker_settings({name.replace("_", "."): text for name, text in given.items()})
    )


def test_without_it_there_is_no_zookeeper() -> None:
    assert parsed() is None


def test_hosts_chroot_and_times() -> None:
    assert parsed(zookeeper_connect="a:2181,b:2181/kafka/x") == ZooKeeperSettings(
        "a:2181,b:2181", "/kafka/x", 18.0, 18.0
    )
    timed = parsed(
        zookeeper_connect="a:2181",
        zookeeper_session_timeout_ms="6000",
        zookeeper_connection_timeout_ms="9000",
    )
    assert timed == ZooKeeperSettings("a:2181", "", 6.0, 9.0)


def test_login_and_tls() -> None:
    found = parsed(
        zookeeper_connect="a:2181",
        zookeeper_set_acl="true",
        moldau_zookeeper_digest="kafka:secret",
        zookeeper_ssl_client_enable="true",
        zookeeper_ssl_truststore_location="/ca.pem",
    )
    assert found is not None
    assert (found.set_acl, found.digest, found.tls, found.ca_file) == (True, "kafka:secret", True, "/ca.pem")


def test_znodes_for_one_login_need_a_login() -> None:
    with pytest.raises(SettingError, match="needs a login at ZooKeeper"):
        parsed(zookeeper_connect="a:2181", zookeeper_set_acl="true")


@pytest.mark.parametrize("text", ["/kafka", "a:2181//", "a:2181/kafka/"])
def test_a_chroot_that_is_none(text: str) -> None:
    with pytest.raises(SettingError, match=r"zookeeper\.connect must be"):
        parsed(zookeeper_connect=text)


DIGEST = 'org.apache.zookeeper.server.auth.DigestLoginModule required username="kafka" password="c4n4ry";'
KERBEROS = (
    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
    'keyTab="/etc/kafka.keytab" principal="kafka/host@REALM";'
)


def test_a_login_by_sasl() -> None:
    found = parsed(
        zookeeper_connect="a:2181", zookeeper_set_acl="true", moldau_zookeeper_sasl_jaas_config=DIGEST
    )
    assert found is not None
    assert found.login == ZooKeeperLogin("DIGEST-MD5", Credentials("kafka", "c4n4ry", service="zookeeper"))
    assert "c4n4ry" not in repr(found)
    kerberos = parsed(
        zookeeper_connect="a:2181",
        moldau_zookeeper_sasl_jaas_config=KERBEROS,
        moldau_zookeeper_sasl_service_name="zk",
    )
    assert kerberos is not None
    assert kerberos.login == ZooKeeperLogin(
        "GSSAPI", Credentials("kafka/host@REALM", key_table="/etc/kafka.keytab", service="zk")
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("c4n4ry", "a JAAS line reads"),
        ('x.PlainLoginModule required username="a" password="c4n4ry";', "DigestLoginModule and Krb5"),
        ('DigestLoginModule required password="c4n4ry";', "needs username and password"),
        ('Krb5LoginModule required keyTab="/c4n4ry";', "needs the principal"),
    ],
)
def test_lines_that_are_no_login(line: str, why: str) -> None:
    with pytest.raises(SettingError, match=why) as caught:
        parsed(zookeeper_connect="a:2181", moldau_zookeeper_sasl_jaas_config=line)
    assert "c4n4ry" not in str(caught.value)
