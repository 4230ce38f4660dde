"""How a broker reaches ZooKeeper: Kafka's settings, read."""

from typing import Any, NamedTuple

from moldau.base.settings import SettingError
from moldau.security.jaas import parse_jaas
from moldau.security.sasl.client import Credentials

_JAAS = "moldau.zookeeper.sasl.jaas.config"


class ZooKeeperLogin(NamedTuple):
    """A login by SASL."""

    #: ``DIGEST-MD5`` or ``GSSAPI``.
    mechanism: str
    credentials: Credentials


class ZooKeeperSettings(NamedTuple):
    hosts: str
    chroot: str = ""
    session_timeout_seconds: float = 18.0
    connection_timeout_seconds: float = 18.0
    #: Whether only this login may change the znodes, and read the sensitive ones.
    set_acl: bool = False
    #: ``user:password`` for the scheme ``digest``.
    digest: str | None = None
    tls: bool = False
    ca_file: str | None = None
    certificate_file: str | None = None
    key_password: str | None = None
    check_host_name: bool = True
    login: ZooKeeperLogin | None = None


def zookeeper_settings(settings: Any) -> ZooKeeperSettings | None:
    """None when ``zookeeper.connect`` is not set."""
    connect: str | None = settings["zookeeper.connect"]
    if not connect:
        return None
    hosts, slash, chroot = connect.strip().partition("/")
    if not hosts or chroot.startswith("/") or chroot.endswith("/"):
        reason = f"zookeeper.connect must be host:port,host:port/chroot, but it is {connect}"
        raise SettingError("zookeeper.connect", reason)
    session_ms = settings["zookeeper.session.timeout.ms"]
    connection_ms = settings["zookeeper.connection.timeout.ms"]
    digest, password = settings["moldau.zookeeper.digest"], settings["zookeeper.ssl.keystore.password"]
    login = _login(settings)
    if settings["zookeeper.set.acl"] and not (login or digest or settings["zookeeper.ssl.keystore.location"]):
        reason = (
            "zookeeper.set.acl=true needs a login at ZooKeeper, or everybody could change the znodes: set "
            f"{_JAAS}, moldau.zookeeper.digest, or zookeeper.ssl.keystore.location"
        )
        raise SettingError("zookeeper.set.acl", reason)
    return ZooKeeperSettings(
        hosts,
        f"{slash}{chroot}" if chroot else "",
        session_ms / 1000,
        (session_ms if connection_ms is None else connection_ms) / 1000,
        settings["zookeeper.set.acl"],
        None if digest is None else digest.value,
        settings["zookeeper.ssl.client.enable"],
        settings["zookeeper.ssl.truststore.location"],
        settings["zookeeper.ssl.keystore.location"],
        None if password is None else password.value,
        settings["zookeeper.ssl.endpoint.identification.algorithm"] != "",
        login,
    )


def _login(settings: Any) -> ZooKeeperLogin | None:
    line = settings[_JAAS]
    if line is None:
        return None
    try:
        return zookeeper_login(line.value, settings["moldau.zookeeper.sasl.service.name"])
    except ValueError as error:
        raise SettingError(_JAAS, f"{_JAAS}: {error}") from None


def zookeeper_login(line: str, service: str) -> ZooKeeperLogin:
    """The login of a JAAS line, as a section ``Client`` has it; ValueError, without a value, for others."""
    module = parse_jaas(line)
    options = module.options
    match module.name.rpartition(".")[2]:
        case "DigestLoginModule":
            if not (options.get("username") and options.get("password")):
                raise ValueError("DigestLoginModule needs username and password")
            given = Credentials(options["username"], options["password"], service=service)
            return ZooKeeperLogin("DIGEST-MD5", given)
        case "Krb5LoginModule":
            key_table = options.get("keyTab", "")
            if key_table and not options.get("principal"):
                raise ValueError("Krb5LoginModule with a keyTab needs the principal")
            given = Credentials(options.get("principal", ""), key_table=key_table, service=service)
            return ZooKeeperLogin("GSSAPI", given)
    raise ValueError("ZooKeeper's login modules are DigestLoginModule and Krb5LoginModule")
