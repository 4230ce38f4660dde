"""PushTelemetry: there is nothing to push for."""

import pytest
from asking import NOWHERE, Ask

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.push_telemetry import PushTelemetryRequest


@pytest.mark.parametrize(
    ("instance", "code"),
    [(NOWHERE, ErrorCode.UNKNOWN_SUBSCRIPTION_ID), (bytes(16), ErrorCode.INVALID_REQUEST)],
    ids=["a client with an id", "a client without one"],
)
def test_every_push_is_refused(ask: Ask, instance: bytes, code: ErrorCode) -> None:
    assert ask(PushTelemetryRequest(instance, 1, False, 0, b"metrics")).error_code == code
