"""``moldau doctor security``: a broker's settings and files against a checklist, with what to do.

Invariant: changes nothing, opens no connection, and shows no secret. Every point of the list is answered,
well or not, so that a list without a problem says what was looked at.
"""

import datetime
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from moldau.base.host_names import is_loopback
from moldau.base.settings import SettingError
from moldau.cluster.configs.broker_settings import BrokerSettings, load_broker_settings
from moldau.cluster.configs.listener_settings import ListenerSettings
from moldau.cluster.records import Endpoint
from moldau.reports.findings import Finding, Severity, ok
from moldau.security.jaas import plain_users
from moldau.security.principals import parse_super_users
from moldau.security.tls import KeyMaterial, from_pem, read_store

_MAX_INT = 2**31 - 1
_SOON = datetime.timedelta(days=30)
#: Below these a password, or the secret that tokens are made from, is guessed.
_SHORT_PASSWORD, _SHORT_SECRET = 8, 16


def examine_settings(
    properties: Mapping[str, str], path: Path | None, now: datetime.datetime
) -> Iterator[Finding]:
    """All points of the list for a ``server.properties`` file, or for a broker without one."""
    try:
        settings = load_broker_settings(properties)
    except SettingError as error:
        yield _problem("settings", str(error), "correct the setting; a broker does not start with it")
        return
    yield from _listeners(settings)
    yield _between_brokers(settings)
    yield _authorizer(settings)
    yield _open_default(settings)
    yield _super_users(settings)
    yield from _logins(settings)
    yield from _certificates(settings, now)
    yield _private_files(settings, path)
    yield _data_directories(settings)
    yield _limits(settings)
    yield _audit(settings)


def _problem(subject: str, text: str, step: str) -> Finding:
    return Finding(Severity.PROBLEM, subject, text, step)


def _warning(subject: str, text: str, step: str) -> Finding:
    return Finding(Severity.WARNING, subject, text, step)


# --- who gets in --------------------------------------------------------------------------------------------


def _listeners(settings: BrokerSettings) -> Iterator[Finding]:
    for listener in settings.listeners:
        subject = f"listener {listener.name}"
        own = ListenerSettings(settings.layers, listener.name)
        reach = "this machine only" if is_loopback(listener.host) else "the network"
        protocol = listener.security_protocol
        if is_loopback(listener.host):
            yield ok(subject, f"{protocol}, {reach}")
        elif protocol == "PLAINTEXT":
            allowed = settings["moldau.listener.plaintext.allow"]
            text = f"{reach} gets in without a login, and everything goes in the clear"
            step = "give it SASL_SSL or SSL, or bind it to 127.0.0.1"
            yield (_warning if allowed else _problem)(subject, text, step)
        elif protocol == "SASL_PLAINTEXT":
            yield _warning(subject, "passwords and records go over the network in the clear", "use SASL_SSL")
        elif protocol == "SSL" and own["ssl.client.auth"] != "required":
            text = f"{reach} gets in without a certificate, as User:ANONYMOUS"
            yield _warning(subject, text, "set ssl.client.auth=required, or use SASL_SSL")
        else:
            yield ok(subject, f"{protocol}, {reach}")


def _between_brokers(settings: BrokerSettings) -> Finding:
    listener = settings.inter_broker_listener
    subject = "between brokers"
    bound = next((each for each in settings.listeners if each.name == listener.name), listener)
    if is_loopback(bound.host) or listener.security_protocol == "SASL_SSL":
        return ok(subject, f"{listener.name}, {listener.security_protocol}")
    if listener.security_protocol == "SSL":
        return ok(subject, f"{listener.name}, SSL")
    return _warning(
        subject,
        f"{listener.name} is {listener.security_protocol}: replicas are copied in the clear",
        "name a listener with TLS as inter.broker.listener.name",
    )


def _logins(settings: BrokerSettings) -> Iterator[Finding]:
    for listener in settings.listeners:
        if not listener.security_protocol.startswith("SASL"):
            continue
        own = ListenerSettings(settings.layers, listener.name)
        subject = f"login at {listener.name}"
        mechanisms = own["sasl.enabled.mechanisms"]
        weak = list(_weak_logins(own, mechanisms, listener))
        yield from weak
        if not weak:
            yield ok(subject, ", ".join(mechanisms))
    secret = settings["delegation.token.secret.key"]
    if secret is not None and len(secret.value) < _SHORT_SECRET:
        text = f"delegation.token.secret.key has fewer than {_SHORT_SECRET} characters"
        yield _problem("tokens", text, "make a longer one: openssl rand -base64 32")


def _weak_logins(own: ListenerSettings, mechanisms: tuple[str, ...], listener: Endpoint) -> Iterator[Finding]:
    subject = f"login at {listener.name}"
    if "PLAIN" in mechanisms:
        try:
            users = plain_users(own.jaas("PLAIN") or "")
        except ValueError:
            users = {}
        short = sorted(name for name, password in users.items() if len(password) < _SHORT_PASSWORD)
        if short:
            text = (
                f"{len(short)} password(s) have fewer than {_SHORT_PASSWORD} characters: {', '.join(short)}"
            )
            yield _warning(subject, text, "choose longer ones, or use SCRAM-SHA-512")
    if "OAUTHBEARER" in mechanisms:
        if own["moldau.oauthbearer.unsecured.allow"]:
            text = "tokens without a signature are taken: everybody can be anybody"
            yield _problem(subject, text, "set moldau.oauthbearer.unsecured.allow=false")
        elif not own["sasl.oauthbearer.expected.issuer"] or not own["sasl.oauthbearer.expected.audience"]:
            text = "tokens that were issued for other services are taken too"
            names = "sasl.oauthbearer.expected.issuer and sasl.oauthbearer.expected.audience"
            yield _warning(subject, text, f"set {names}")


# --- who may ------------------------------------------------------------------------------------------------


def _authorizer(settings: BrokerSettings) -> Finding:
    if settings["authorizer.class.name"]:
        return ok("authorizer", "ACLs decide who may do what")
    if all(is_loopback(listener.host) for listener in settings.listeners):
        return Finding(Severity.NOTE, "authorizer", "none: whoever reaches the broker may do everything")
    return _problem(
        "authorizer",
        "none: whoever gets in may read, write and delete everything",
        "set authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer and super.users",
    )


def _open_default(settings: BrokerSettings) -> Finding:
    if not settings["allow.everyone.if.no.acl.found"]:
        return ok("default", "what no ACL allows is refused")
    return _warning(
        "default",
        "what no ACL is about is open to everybody, new topics too",
        "set allow.everyone.if.no.acl.found=false; 'moldau acls suggest' proposes the ACLs that are missing",
    )


def _super_users(settings: BrokerSettings) -> Finding:
    users = parse_super_users(settings["super.users"] or "")
    if "User:ANONYMOUS" in users and not all(is_loopback(each.host) for each in settings.listeners):
        text = "User:ANONYMOUS is one: whoever comes without a login may do everything"
        return _problem("super users", text, "take User:ANONYMOUS out of super.users")
    if settings["authorizer.class.name"] and not users:
        return _warning("super users", "none: nobody can create the first ACL", "set super.users=User:admin")
    return ok("super users", ", ".join(sorted(users)) or "none")


# --- certificates -------------------------------------------------------------------------------------------


def _certificates(settings: BrokerSettings, now: datetime.datetime) -> Iterator[Finding]:
    for listener in settings.listeners:
        if not listener.security_protocol.endswith("SSL"):
            continue
        subject = f"certificate of {listener.name}"
        own = ListenerSettings(settings.layers, listener.name)
        try:
            yield _certificate(subject, _material(own), _advertised(settings, listener), now)
        except ImportError:
            step = "pip install 'moldau[security]'"
            yield _warning(subject, "it cannot be looked at without the package cryptography", step)
        except ValueError as error:
            yield _problem(subject, str(error), "correct the ssl.keystore settings; 'moldau certs' makes one")


def _material(own: ListenerSettings) -> KeyMaterial:
    if own.secret("ssl.keystore.key") is not None:
        return from_pem(own.secret("ssl.keystore.certificate.chain") or "")
    location = own["ssl.keystore.location"]
    if location is None:
        raise ValueError(f"{own.prefix}ssl.keystore.location is not set")
    password, key_password = own.secret("ssl.keystore.password"), own.secret("ssl.key.password")
    return read_store(location, own["ssl.keystore.type"], password, key_password)


def _advertised(settings: BrokerSettings, listener: Endpoint) -> str:
    for each in settings.advertised_listeners:
        if each.name == listener.name:
            return each.host
    return listener.host


def _certificate(subject: str, material: KeyMaterial, host: str, now: datetime.datetime) -> Finding:
    from cryptography import x509

    if not material.certificates:
        raise ValueError("the key store has no certificate")
    certificate = x509.load_pem_x509_certificates(material.certificates.encode())[0]
    expires = certificate.not_valid_after_utc
    left = expires - now
    renew = "make a new one; a running broker takes it within ten seconds"
    if left <= datetime.timedelta(0) or now < certificate.not_valid_before_utc:
        return _problem(subject, f"it is not valid now (until {expires:%Y-%m-%d})", renew)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return _problem(subject, "it names no host: clients refuse it", "make one with a subjectAltName")
    known = {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}
    if host and not is_loopback(host) and not _covers(known, host):
        return _problem(
            subject, f"it is not for {host}, which clients are told to use", f"make one for {host}"
        )
    if left < _SOON:
        return _warning(subject, f"it ends in {left.days} day(s)", renew)
    return ok(subject, f"valid until {expires:%Y-%m-%d}, for {', '.join(sorted(known))}")


def _covers(known: set[str], host: str) -> bool:
    return host in known or f"*.{host.partition('.')[2]}" in known


# --- files and bounds ---------------------------------------------------------------------------------------


def _private_files(settings: BrokerSettings, path: Path | None) -> Finding:
    found = [] if path is None or not _has_secrets(settings) else [path]
    for listener in settings.listeners:
        if listener.security_protocol.endswith("SSL"):
            location = ListenerSettings(settings.layers, listener.name)["ssl.keystore.location"]
            found += [] if location is None else [Path(location)]
    wide = [str(each) for each in dict.fromkeys(found) if _mode(each) & 0o077]
    if wide:
        return _problem("secret files", f"others can read {', '.join(wide)}", f"chmod 600 {' '.join(wide)}")
    return ok("secret files", f"{len(set(found))} looked at" if found else "none")


def _has_secrets(settings: BrokerSettings) -> bool:
    return any("password" in name or "jaas" in name or "secret" in name for name in settings.static)


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0


def _data_directories(settings: BrokerSettings) -> Finding:
    wide = [each for each in settings.log_dirs if os.path.isdir(each) and _mode(Path(each)) & 0o077]
    if wide:
        text = f"others can look into {', '.join(wide)}"
        return _warning("data directories", text, f"chmod 700 {' '.join(wide)}")
    return ok("data directories", ", ".join(settings.log_dirs))


def _limits(settings: BrokerSettings) -> Finding:
    if all(is_loopback(listener.host) for listener in settings.listeners):
        return ok("connections", "this machine only")
    if settings["max.connections.per.ip"] == _MAX_INT:
        text = "one address may open as many as there are"
        return _warning("connections", text, "set max.connections.per.ip, for example 1000")
    return ok("connections", f"at most {settings['max.connections.per.ip']} from one address")


def _audit(settings: BrokerSettings) -> Finding:
    if settings["moldau.audit.log"]:
        return ok("audit", f"written to {settings['moldau.audit.log']}")
    text = "refusals and changes of rights are not written down"
    return Finding(Severity.NOTE, "audit", text, "set moldau.audit.log=FILE")
