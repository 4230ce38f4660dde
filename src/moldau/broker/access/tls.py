"""TLS of a listener, from Kafka's ``ssl.*`` settings.

Invariant: a setting that cannot be met is a ``ValueError`` that names it; a listener never falls back to
plain text, to a weaker protocol, or to clients without certificates.
"""

import ssl

from moldau.cluster.configs.listener_settings import ListenerSettings
from moldau.security.certificates import expires_at_ms
from moldau.security.tls import KeyMaterial, from_pem, load_identity, read_store

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class ListenerContext(ssl.SSLContext):
    """A context that knows until when its certificate is good."""

    expires_at_ms: int | None = None


def server_context(settings: ListenerSettings) -> ListenerContext:
    """What connections of a listener are made with."""
    context = ListenerContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions(context, settings["ssl.enabled.protocols"])
    _set_ciphers(context, settings["ssl.cipher.suites"])
    identity = _key_material(settings)
    if not identity.certificates or not identity.key:
        raise ValueError(f"{settings.prefix}ssl.keystore.location must have a certificate and its key")
    password = settings.secret("ssl.key.password") or settings.secret("ssl.keystore.password") or ""
    load_identity(context, identity, password)
    context.expires_at_ms = expires_at_ms(identity.certificates)
    context.verify_mode = _CLIENT_AUTH[settings["ssl.client.auth"]]
    if context.verify_mode is not ssl.CERT_NONE:
        trusted = _trusted(settings)
        if not trusted:
            wanted = settings["ssl.client.auth"]
            raise ValueError(f"ssl.client.auth={wanted} needs {settings.prefix}ssl.truststore.location")
        try:
            context.load_verify_locations(cadata=trusted)
        except ssl.SSLError as error:
            raise ValueError(f"ssl.truststore.location has no certificates to trust: {error}") from None
    return context


def _key_material(settings: ListenerSettings) -> KeyMaterial:
    chain, key = settings.secret("ssl.keystore.certificate.chain"), settings.secret("ssl.keystore.key")
    location = settings["ssl.keystore.location"]
    if key is not None:
        if location is not None:
            raise ValueError("Both SSL key store location and separate private key are specified.")
        return KeyMaterial(from_pem(chain or "").certificates, from_pem(key).key)
    if location is None:
        raise ValueError(f"{settings.prefix}ssl.keystore.location is not set")
    password, key_password = settings.secret("ssl.keystore.password"), settings.secret("ssl.key.password")
    return read_store(location, settings["ssl.keystore.type"], password, key_password)


def _trusted(settings: ListenerSettings) -> str:
    text = settings.secret("ssl.truststore.certificates")
    if text is not None:
        return from_pem(text).certificates
    location = settings["ssl.truststore.location"]
    if location is None:
        return ""
    password = settings.secret("ssl.truststore.password")
    return read_store(location, settings["ssl.truststore.type"], password).certificates


def _set_versions(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown or not names:
        raise ValueError(f"ssl.enabled.protocols may be {' and '.join(_VERSIONS)}, not {', '.join(names)}")
    versions = [_VERSIONS[name] for name in names]
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _set_ciphers(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    """Names as Kafka has them; those of TLS 1.3 are always on, older ones have other names in OpenSSL."""
    older = [_openssl_name(name) for name in names if "_WITH_" in name or "-" in name]
    if not older:
        return
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError:
        raise ValueError(f"ssl.cipher.suites has no cipher that is known here: {', '.join(names)}") from None


def _openssl_name(name: str) -> str:
    """``TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384`` is ``ECDHE-RSA-AES256-GCM-SHA384`` there."""
    name = name.removeprefix("TLS_").replace("_WITH_", "-").replace("_", "-")
    for bits in ("128", "256"):
        name = name.replace(f"AES-{bits}-", f"AES{bits}-")
    return name.replace("-CBC-", "-").replace("CHACHA20-POLY1305-SHA256", "CHACHA20-POLY1305")
