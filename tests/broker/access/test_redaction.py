"""What of a request is shown: every secret of every message is stars."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import moldau.protocol.messages as messages_package
from moldau.broker.access.redaction import SECRET_FIELDS, shown
from moldau.protocol import messages
from moldau.protocol.api_keys import VERSIONS, ApiKey
from moldau.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData, OpData
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.schema import declaration

#: Names that sound like a secret and are none.
_HARMLESS = {"token_id", "coordinator_keys", "key", "api_keys", "api_key", "configuration_keys", "key_type"}


def test_secrets_are_stars() -> None:
    config = AlterableConfig(name="ssl.keystore.password", value="hunter2")
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(4, "1", [config])])
    assert "hunter2" not in shown(request)
    assert "name='ssl.keystore.password'" in shown(request)
    assert shown(SaslAuthenticateRequest(b"\0ann\0hunter2")) == "SaslAuthenticateRequest(auth_bytes=***)"


def test_quotas_and_empty_values_are_shown() -> None:
    request = AlterClientQuotasRequest([EntryData([], [OpData("producer_byte_rate", 5.0, False)])])
    assert "value=5.0" in shown(request)
    assert shown(SaslAuthenticateRequest(b"")) == "SaslAuthenticateRequest(auth_bytes=b'')"


def test_a_line_has_a_bound() -> None:
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(2, "t" * 100) for _ in range(1000)])
    assert len(shown(request)) == 2001


def test_every_field_of_a_request_that_sounds_like_a_secret_is_one_or_is_known() -> None:
    found: set[str] = set()

    def walk(message: type) -> None:
        for field in declaration(message).fields:
            found.add(field.name)
            if isinstance(field.kind, type) and hasattr(field.kind, "__message__"):
                walk(field.kind)

    for module in iter_modules(messages_package.__path__):
        import_module(f"moldau.protocol.messages.{module.name}")
    for api_key in VERSIONS:
        request, _ = _loaded(api_key)
        walk(request)
    words = ("password", "secret", "hmac", "salt", "auth_bytes", "token")
    sounding = {name for name in found if any(word in name for word in words)}
    assert sounding - SECRET_FIELDS - _HARMLESS == set()
    assert {name for name in SECRET_FIELDS if name not in found} == set()


def _loaded(api_key: ApiKey) -> Any:
    return messages.load(api_key)
