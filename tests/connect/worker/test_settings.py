"""The settings of a worker: what would leave REST open or in plain text is refused, and not ignored."""

from pathlib import Path

import pytest

from moldau.connect.errors import ConfigException
from moldau.connect.worker.settings import standalone_settings
from moldau.web.tls import TlsOptions

_WORKER = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "offset.storage.file.filename": "offsets",
}
_HTTPS = _WORKER | {
    "listeners": "https://localhost:8443",
    "listeners.https.ssl.keystore.location": "/etc/worker.pem",
    "listeners.https.ssl.keystore.type": "PEM",
}


def test_plain_http_has_none() -> None:
    settings = standalone_settings(_WORKER)
    assert (settings.host, settings.port, settings.tls) == ("127.0.0.1", 8083, None)


def test_https_by_the_settings_of_kafka_connect() -> None:
    settings = standalone_settings(_HTTPS)
    assert (settings.port, settings.tls) == (8443, TlsOptions(Path("/etc/worker.pem")))
    clients = {"ssl.client.auth": "required", "ssl.truststore.location": "/ca", "ssl.truststore.type": "pem"}
    tls = standalone_settings(_HTTPS | clients).tls
    assert tls == TlsOptions(Path("/etc/worker.pem"), client_authorities=Path("/ca"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"listeners.https.ssl.keystore.location": ""}, "listeners.https.ssl.keystore.location"),
        ({"listeners.https.ssl.keystore.type": "JKS"}, "listeners.https.ssl.keystore.type=PEM"),
        ({"ssl.client.auth": "required"}, "listeners.https.ssl.truststore.location"),
        ({"ssl.client.auth": "requested"}, "none or required"),
        ({"ssl.key.password": "secret"}, "without a password"),
    ],
)
def test_https_never_becomes_plain_text(change: dict[str, str], said: str) -> None:
    """It once listened in the clear under an address of https."""
    with pytest.raises(ConfigException, match=said) as error:
        standalone_settings(_HTTPS | change)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.X"},
            "start the worker with --user NAME:PASSWORD",
        ),
        ({"listeners": "ftp://127.0.0.1:1"}, "A listener is written as http://host:port"),
    ],
)
def test_what_would_leave_rest_open_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigException) as raised:
        standalone_settings({**_WORKER, **given})
    assert said in raised.value.message
