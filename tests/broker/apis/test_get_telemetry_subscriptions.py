"""GetTelemetrySubscriptions: an instance id, and nothing to push."""

from asking import Ask

from moldau.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest


def test_a_new_client_gets_an_id_and_keeps_it(ask: Ask) -> None:
    given = ask(GetTelemetrySubscriptionsRequest(bytes(16)))
    assert given.error_code == 0
    assert given.client_instance_id != bytes(16)
    again = ask(GetTelemetrySubscriptionsRequest(given.client_instance_id))
    assert again.client_instance_id == given.client_instance_id
    other = ask(GetTelemetrySubscriptionsRequest(bytes(16)))
    assert other.client_instance_id != given.client_instance_id


def test_no_metric_is_wanted(ask: Ask) -> None:
    response = ask(GetTelemetrySubscriptionsRequest(bytes(16)))
    assert (response.subscription_id, response.requested_metrics) == (0, [])
    assert sorted(response.accepted_compression_types) == [1, 2, 3, 4]
    assert response.push_interval_ms == 300_000
