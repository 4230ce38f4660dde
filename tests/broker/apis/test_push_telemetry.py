"""PushTelemetry: what is taken and what is refused, as a real broker with a receiver answered."""

import struct

from moldau.base.clock import SystemClock
from moldau.broker.monitoring.telemetry import ClientTelemetry, Pushed
from moldau.cluster.configs.broker_settings import load_broker_settings
from moldau.metrics.otlp import Point
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


def test_a_client_that_is_gone_shows_its_last_numbers_no_longer(ask: Ask) -> None:
    """A dead consumer would have the lag of its last push for ever."""
    client, subscription = joined(ask)
    assert push(ask, client, subscription, otlp_sum("org.apache.kafka.consumer.lag", 7.0)) == 0
    telemetry = ask.broker.node.services.telemetry
    ask.broker.clock.advance(2 * 300)  # the interval of this subscription
    assert any("consumer_lag" in line for line in telemetry.exposition())
    ask.broker.clock.advance(301)
    assert not any("consumer_lag" in line for line in telemetry.exposition())
    assert client not in telemetry.pushed


def test_no_client_spoils_a_scrape_or_passes_for_the_broker(ask: Ask) -> None:
    """One bad line, and Prometheus takes nothing of all that a broker shows."""
    pushed = (
        otlp_sum("9lives", 1.0, **{"__name__": "evil", "client_id": "somebody else", "9": "x"}),
        otlp_sum("kafka.server.brokertopicmetrics.bytesin", 1e9),
        otlp_sum("", 1.0),
    )
    for metrics in pushed:
        client, subscription = joined(ask)
        assert push(ask, client, subscription, metrics) == 0
    text = "".join(ask.broker.node.services.telemetry.exposition())
    line = next(each for each in text.splitlines() if each.startswith("_9lives_total{"))
    assert '_name__="evil"' in line
    assert '_9="x"' in line
    assert 'client_id="tester"' in line
    assert "somebody else" not in text
    assert "{__" not in text
    assert ",__" not in text
    assert "kafka_server_brokertopicmetrics" not in text


def test_what_clients_push_takes_a_bounded_memory() -> None:
    telemetry = ClientTelemetry(SystemClock(), load_broker_settings({}))
    pushed = Pushed({})
    for index in range(2000):
        pushed.take(Point(f"{index:04}" + "x" * 1900, (), 1.0, False, False))
    pushed.take(Point("y" * 3000, (), 1.0, False, False))
    assert len(pushed.numbers) == 1000
    assert 2_000_000 < pushed.size < 3_000_000
    for number in range(100):
        telemetry._remember(number.to_bytes(16, "big"), pushed)
    assert len(telemetry.pushed) == 64 * 1024 * 1024 // pushed.size
