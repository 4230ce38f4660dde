"""GetTelemetrySubscriptions: an id, and what to push, as a real broker with a receiver answered."""

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.apis.asking import Ask

CLIENT_METRICS = 16


def subscribe(ask: Ask, name: str, **configs: str) -> None:
    changes = [AlterableConfig(key.replace("_", "."), 0, value) for key, value in configs.items()]
    resource = AlterConfigsResource(CLIENT_METRICS, name, changes)
    response = ask(IncrementalAlterConfigsRequest([resource]))
    assert response.responses[0].error_code == 0, response.responses[0].error_message


def test_a_new_client_gets_an_id_and_may_not_ask_again_at_once(ask: Ask) -> None:
    given = ask(GetTelemetrySubscriptionsRequest(bytes(16)))
    assert given.error_code == 0
    assert given.client_instance_id != bytes(16)
    again = ask(GetTelemetrySubscriptionsRequest(given.client_instance_id))
    assert again.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert (again.client_instance_id, again.subscription_id) == (bytes(16), 0)
    other = ask(GetTelemetrySubscriptionsRequest(bytes(16)))
    assert other.client_instance_id != given.client_instance_id


def test_without_a_subscription_no_metric_is_wanted(ask: Ask) -> None:
    response = ask(GetTelemetrySubscriptionsRequest(bytes(16)))
    assert response.requested_metrics == []
    assert response.accepted_compression_types == [4, 3, 1, 2]
    assert response.push_interval_ms == 300_000
    assert (response.telemetry_max_bytes, response.delta_temporality) == (1_048_576, True)


def test_subscriptions_that_match_are_put_together(ask: Ask) -> None:
    subscribe(ask, "s1", metrics="org.apache.kafka.producer.", interval_ms="1000", match="client_id=tel.*")
    subscribe(ask, "s2", metrics="org.apache.kafka.admin.", interval_ms="60000")
    matching = ask(GetTelemetrySubscriptionsRequest(bytes(16)), client_id="telc")
    assert set(matching.requested_metrics) == {"org.apache.kafka.producer.", "org.apache.kafka.admin."}
    assert matching.push_interval_ms == 1000
    other = ask(GetTelemetrySubscriptionsRequest(bytes(16)), client_id="atelc")
    assert (other.requested_metrics, other.push_interval_ms) == (["org.apache.kafka.admin."], 60000)
    subscribe(ask, "s3", metrics="*", interval_ms="500", match="client_software_name=my-soft")
    assert ask(GetTelemetrySubscriptionsRequest(bytes(16))).requested_metrics == ["*"]
    for name in ("s1", "s2", "s3"):
        gone = [AlterableConfig(key, 1, None) for key in ("metrics", "interval.ms", "match")]
        ask(IncrementalAlterConfigsRequest([AlterConfigsResource(CLIENT_METRICS, name, gone)]))
