"""How a client proves who it is and whom it trusts: TLS and SASL, from the settings of Kafka's clients.

    security = Security.of({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512",
                            "sasl.username": "ada", "sasl.password": "secret", "ssl.ca.location": "ca.pem"})
    cluster = await Cluster.open("broker:9093", security=security)

Both vocabularies are read: Java's (``sasl.jaas.config``, ``ssl.truststore.location`` …) and librdkafka's
(``sasl.username``, ``ssl.ca.location`` …). Certificates are PEM; a Java key store is refused with the
command that converts it.

Invariant: values and nothing else, so that they can be compared, hashed and sent to another process. A
setting that cannot be met is a ``ValueError`` at once: nothing is ever sent in the clear that was meant to
be secret.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from moldau.security.jaas import jaas_options
from moldau.security.sasl.client import MECHANISMS, Credentials
from moldau.security.tls import KeyMaterial, load_identity

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_PEM = "PEM only; a Java key store is refused with the command that converts it"
_LIBRDKAFKA = "new: librdkafka's name"

#: Every setting that is read here: name, default, meaning, and what differs from the Java client.
SETTINGS: tuple[tuple[str, str, str, str], ...] = (
    ("security.protocol", "PLAINTEXT", "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.", "same"),
    (
        "sasl.mechanism",
        "",
        f"{', '.join(MECHANISMS[:-1])} or {MECHANISMS[-1]} (pip install 'moldau[kerberos]').",
        "no default",
    ),
    ("sasl.mechanisms", "", "The same.", _LIBRDKAFKA),
    (
        "sasl.jaas.config",
        "",
        "Java's line with username=… and password=…, tokenauth=true, keyTab=… and principal=….",
        "only these are read",
    ),
    ("sasl.kerberos.service.name", "kafka", "What the brokers are called at the KDC.", "has a default"),
    ("sasl.kerberos.principal", "", "Who logs in with Kerberos.", _LIBRDKAFKA),
    ("sasl.kerberos.keytab", "", "The file with its key; without one there must be a ticket.", _LIBRDKAFKA),
    ("sasl.username", "", "Who logs in.", _LIBRDKAFKA),
    ("sasl.password", "", "The password.", _LIBRDKAFKA),
    ("sasl.oauthbearer.token", "", "A token that was fetched before.", "new"),
    ("sasl.oauthbearer.token.endpoint.url", "", "https address that gives tokens.", "same"),
    ("sasl.oauthbearer.client.credentials.client.id", "", "Who asks for a token there.", "same"),
    ("sasl.oauthbearer.client.credentials.client.secret", "", "Its secret.", "same"),
    ("sasl.oauthbearer.scope", "", "What the token is for.", "same"),
    ("ssl.truststore.location", "the system's", "File of the authorities that are trusted.", _PEM),
    ("ssl.truststore.certificates", "", "The same as a text.", "same"),
    ("ssl.truststore.type", "PEM", "Taken and not needed: the file is looked at.", _PEM),
    ("ssl.truststore.password", "", "Taken and not needed.", _PEM),
    ("ssl.ca.location", "the system's", "File of the authorities that are trusted.", _LIBRDKAFKA),
    ("ssl.ca.pem", "", "The same as a text.", _LIBRDKAFKA),
    ("ssl.keystore.location", "", "File with the client's certificate and its key.", _PEM),
    ("ssl.keystore.certificate.chain", "", "The client's certificate as a text.", "same"),
    ("ssl.keystore.key", "", "The client's key as a text.", "same"),
    ("ssl.keystore.type", "PEM", "Taken and not needed: the file is looked at.", _PEM),
    ("ssl.keystore.password", "", "Taken and not needed.", _PEM),
    ("ssl.certificate.location", "", "File with the client's certificate.", _LIBRDKAFKA),
    ("ssl.certificate.pem", "", "The same as a text.", _LIBRDKAFKA),
    ("ssl.key.location", "", "File with the client's key.", _LIBRDKAFKA),
    ("ssl.key.pem", "", "The same as a text.", _LIBRDKAFKA),
    ("ssl.key.password", "", "The password of the key.", "same"),
    ("ssl.endpoint.identification.algorithm", "https", "https, or nothing: names are not compared.", "same"),
    ("enable.ssl.certificate.verification", "true", "false trusts everybody: for trying out.", _LIBRDKAFKA),
)


@dataclass(frozen=True, slots=True)
class Security:
    """One client's security; the default is none."""

    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    credentials: Credentials = field(default_factory=Credentials)
    #: PEM texts, not paths: another process may not have the files.
    authorities: str = ""
    certificate: str = ""
    key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    check_host: bool = True
    check_certificate: bool = True

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "Security":
        """Security from settings of Kafka's clients; those of other matters are passed over."""
        protocol = settings.get("security.protocol", "PLAINTEXT").strip().upper()
        if protocol not in PROTOCOLS:
            raise ValueError(f"security.protocol is one of {', '.join(PROTOCOLS)}, not {protocol!r}")
        if protocol == "PLAINTEXT":
            return cls()
        mechanism, credentials = _sasl(settings) if protocol.startswith("SASL") else ("", Credentials())
        if protocol == "SASL_PLAINTEXT":
            return cls(protocol, mechanism, credentials)
        certificate, key = _identity(settings)
        return cls(
            protocol,
            mechanism,
            credentials,
            _authorities(settings),
            certificate,
            key,
            settings.get("ssl.key.password", ""),
            settings.get("ssl.endpoint.identification.algorithm", "https").strip().lower() == "https",
            settings.get("enable.ssl.certificate.verification", "true").strip().lower() != "false",
        )

    @property
    def encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    def tls_context(self) -> ssl.SSLContext | None:
        """What a connection is made with; None for one in the clear."""
        if not self.encrypted:
            return None
        try:
            context = ssl.create_default_context(cadata=self.authorities or None)
        except ssl.SSLError as error:
            raise ValueError(f"the certificates to trust cannot be read as PEM: {error}") from None
        context.check_hostname = self.check_host and self.check_certificate
        if not self.check_certificate:
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            self._load_identity(context)
        return context

    def _load_identity(self, context: ssl.SSLContext) -> None:
        material = KeyMaterial(self.certificate, self.key or self.certificate)
        try:
            load_identity(context, material, self.key_password)
        except ValueError as error:
            raise ValueError(
                f"{error}; check ssl.certificate.location, ssl.key.location and ssl.key.password"
            ) from None


#: No security: what a broker on a laptop has.
PLAINTEXT = Security()


def _sasl(settings: Mapping[str, str]) -> tuple[str, Credentials]:
    mechanism = (settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or "").strip().upper()
    if not mechanism:
        raise ValueError(f"sasl.mechanism must be set, to one of {', '.join(MECHANISMS)}")
    if mechanism not in MECHANISMS:
        raise ValueError(f"sasl.mechanism={mechanism} is not supported; there are {', '.join(MECHANISMS)}")
    given = jaas_options(settings.get("sasl.jaas.config", ""))
    if mechanism == "GSSAPI":
        return mechanism, Credentials(
            settings.get("sasl.kerberos.principal", "") or given.get("principal", ""),
            key_table=settings.get("sasl.kerberos.keytab", "") or given.get("keyTab", ""),
            service=settings.get("sasl.kerberos.service.name", "") or given.get("serviceName", "kafka"),
        )
    if mechanism == "OAUTHBEARER":
        return mechanism, _bearer(settings, given)
    username = settings.get("sasl.username", "") or given.get("username", "")
    password = settings.get("sasl.password", "") or given.get("password", "")
    if not username:
        raise ValueError(
            f"sasl.mechanism={mechanism} needs sasl.username and sasl.password, or both in sasl.jaas.config"
        )
    by_token = given.get("tokenauth", "").lower() == "true"
    return mechanism, Credentials(username, password, by_delegation_token=by_token)


def _bearer(settings: Mapping[str, str], given: Mapping[str, str]) -> Credentials:
    """A token, or where and how to fetch one; the JAAS line has the older names."""
    token = settings.get("sasl.oauthbearer.token", "") or given.get("token", "")
    url = settings.get("sasl.oauthbearer.token.endpoint.url", "")
    prefix = "sasl.oauthbearer.client.credentials."
    if token:
        return Credentials(token=token)
    client_id = settings.get(f"{prefix}client.id", "") or given.get("clientId", "")
    if not url or not client_id:
        raise ValueError(
            "sasl.mechanism=OAUTHBEARER needs sasl.oauthbearer.token, or sasl.oauthbearer.token.endpoint.url "
            f"and {prefix}client.id and .client.secret"
        )
    return Credentials(
        client_id,
        settings.get(f"{prefix}client.secret", "") or given.get("clientSecret", ""),
        token_url=url,
        scope=settings.get("sasl.oauthbearer.scope", "") or given.get("scope", ""),
    )


def _authorities(settings: Mapping[str, str]) -> str:
    inline = settings.get("ssl.truststore.certificates") or settings.get("ssl.ca.pem")
    if inline:
        return _text(inline)
    return _file(settings, "ssl.ca.location", "ssl.truststore.location")


def _identity(settings: Mapping[str, str]) -> tuple[str, str]:
    chain = settings.get("ssl.keystore.certificate.chain") or settings.get("ssl.certificate.pem")
    key = settings.get("ssl.keystore.key") or settings.get("ssl.key.pem")
    certificate = (
        _text(chain) if chain else _file(settings, "ssl.certificate.location", "ssl.keystore.location")
    )
    private = _text(key) if key else _file(settings, "ssl.key.location")
    if private and not certificate:
        raise ValueError("ssl.key.location is given without ssl.certificate.location")
    return certificate, private


def _text(pem: str) -> str:
    """A properties file has a PEM text on one line, with ``\\n`` written out."""
    return pem.replace("\\n", "\n")


def _file(settings: Mapping[str, str], *names: str) -> str:
    """The text of the first file that is named."""
    for name in names:
        path = settings.get(name)
        if not path:
            continue
        data = _read(name, path)
        if b"-----BEGIN" not in data:
            raise ValueError(
                f"{name}={path} is no PEM file: convert a Java key store with "
                "keytool -importkeystore -deststoretype PKCS12, then openssl pkcs12 -in STORE -out FILE.pem"
            )
        return data.decode("utf-8", "replace")
    return ""


def _read(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{name}={path} cannot be read: {error.strerror}") from None
