"""PushTelemetry: what is taken and what is refused, as a real broker with a receiver answered."""

import struct

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from moldau.protocol.messages.push_telemetry import PushTelemetryRequest
from tests.broker.apis.asking import NOWHERE, Ask


def joined(ask: Ask) -> tuple[bytes, int]:
    """A client that has asked what to push."""
    given = ask(GetTelemetrySubscriptionsRequest(bytes(16)))
    return given.client_instance_id, given.subscription_id


def push(
    ask: Ask, client: bytes, subscription: int, metrics: bytes = b"", codec: int = 0, ending: bool = False
) -> int:
    code: int = ask(PushTelemetryRequest(client, subscription, ending, codec, metrics)).error_code
    return code


def test_who_has_not_asked_is_refused(ask: Ask) -> None:
    assert push(ask, NOWHERE, 1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert push(ask, bytes(16), 1) == ErrorCode.INVALID_REQUEST


def test_one_push_is_taken_and_the_next_one_has_to_wait(ask: Ask) -> None:
    client, subscription = joined(ask)
    assert push(ask, client, subscription) == 0
    assert push(ask, client, subscription) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    ask.broker.clock.advance(300)
    assert push(ask, client, subscription, b"\xff\xff") == 0  # bytes that are no OTLP


def test_what_is_wrong_with_a_push_is_named(ask: Ask) -> None:
    for metrics, codec, wrong_id, expected in (
        (b"", 0, True, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        (b"", 9, False, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (b"no gzip", 1, False, ErrorCode.INVALID_RECORD),
        (bytes(1_048_577), 0, False, ErrorCode.TELEMETRY_TOO_LARGE),
    ):
        client, subscription = joined(ask)
        assert push(ask, client, subscription + wrong_id, metrics, codec) == expected


def test_a_refused_client_may_ask_again_at_once(ask: Ask) -> None:
    client, subscription = joined(ask)
    assert push(ask, client, subscription + 1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert ask(GetTelemetrySubscriptionsRequest(client)).error_code == 0


def test_nothing_comes_after_the_end(ask: Ask) -> None:
    client, subscription = joined(ask)
    assert push(ask, client, subscription, ending=True) == 0
    assert push(ask, client, subscription, ending=True) == ErrorCode.INVALID_REQUEST
    assert push(ask, client, subscription) == ErrorCode.INVALID_REQUEST


def field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def otlp_sum(name: str, value: float, **attributes: str) -> bytes:
    """A MetricsData message with one sum that grows, as the difference to the last push."""
    point = bytes([4 << 3 | 1]) + struct.pack("<d", value)
    for key, text in attributes.items():
        point += field(7, field(1, key.encode()) + field(2, field(1, text.encode())))
    total = field(1, point) + bytes([2 << 3, 1, 3 << 3, 1])
    metric = field(1, name.encode()) + field(7, total)
    return field(1, field(2, field(2, metric)))


def test_what_was_pushed_is_shown_and_differences_add_up(ask: Ask) -> None:
    client, subscription = joined(ask)
    name = "org.apache.kafka.producer.record.send.total"
    assert push(ask, client, subscription, otlp_sum(name, 40.0)) == 0
    ask.broker.clock.advance(301)
    assert push(ask, client, subscription, otlp_sum(name, 2.0)) == 0
    lines = [line for line in ask.broker.node.services.telemetry.exposition() if 'client_id="tester"' in line]
    shown = [line for line in lines if line.startswith("org_apache_kafka_producer_record_send_total{")]
    assert shown[-1].endswith(" 42.0\n")


def test_no_client_can_break_a_scrape_or_speak_for_the_broker(ask: Ask) -> None:
    """One line that Prometheus does not take costs it the whole scrape."""
    client, subscription = joined(ask)
    telemetry = ask.broker.node.services.telemetry
    pushes = (
        otlp_sum("9lives", 1.0),
        otlp_sum("kafka.server.ReplicaManager.UnderReplicatedPartitions", 7.0),
        otlp_sum("org.apache.kafka.x", 2.0, __name__="up", client_id="somebody else"),
        otlp_sum("org.apache.kafka.y", 3.0) + otlp_sum("org.apache.kafka-y", 4.0),
    )
    for each in pushes:
        assert push(ask, client, subscription, each) == 0
        ask.broker.clock.advance(301)
    lines = [line for line in telemetry.exposition() if not line.startswith("#")]
    own = [line for line in lines if 'client_id="tester"' in line]
    names = [line.partition("{")[0] for line in own]
    assert names.count("org_apache_kafka_y_total") == 1
    assert "client_9lives_total" in names
    assert not any(name.startswith(("kafka_", "9")) for name in names)
    (odd,) = (line for line in own if line.startswith("org_apache_kafka_x_total"))
    assert '{name__="up",' in odd
    assert 'client_id="somebody else"' not in "".join(lines)
