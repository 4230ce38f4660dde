"""Settings of a worker that are refused rather than ignored."""

import pytest

from moldau.connect.errors import ConfigException
from moldau.connect.worker.settings import standalone_settings

NEEDED = {"key.converter": "-", "value.converter": "-", "offset.storage.file.filename": "-"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.X"},
            "start the worker with --user NAME:PASSWORD",
        ),
        ({"listeners": "https://127.0.0.1:8443"}, "listeners.https.ssl.keystore.location: a PEM file"),
        (
            {
                "listeners": "https://127.0.0.1:8443",
                "ssl.keystore.location": "x.pem",
                "ssl.client.auth": "required",
            },
            "listeners.https.ssl.truststore.location: a PEM file",
        ),
        ({"listeners": "ftp://127.0.0.1:1"}, "A listener is written as http://host:port"),
    ],
)
def test_what_would_leave_rest_open_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigException) as raised:
        standalone_settings({**NEEDED, **given})
    assert said in raised.value.message
