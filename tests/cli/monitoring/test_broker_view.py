"""Two scrapes become rates: pure."""

from moldau.cli.monitoring.broker_view import BrokerView, busiest, parse, rate, value, view

BEFORE = """# HELP x y
kafka_server_brokertopicmetrics_messagesin_total 100
kafka_server_brokertopicmetrics_messagesin_total{topic="orders"} 60
kafka_network_requestmetrics_requests_total{request="Produce",version="9"} 10
broken line here x
"""
NOW = """kafka_server_brokertopicmetrics_messagesin_total 300
kafka_server_brokertopicmetrics_messagesin_total{topic="orders"} 160
kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 1000
kafka_network_requestmetrics_requests_total{request="Produce",version="9"} 30
kafka_network_requestmetrics_requests_total{request="Fetch",version="12"} 20
kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"} 4.5
kafka_server_replicamanager_underreplicatedpartitions 2
kafka_controller_kafkacontroller_activecontrollercount 1
kafka_server_socket_server_metrics_connection_count{listener="A",networkProcessor="0"} 2
kafka_server_socket_server_metrics_connection_count{listener="B",networkProcessor="0"} 3
"""


def test_rates_waits_and_what_is_wrong() -> None:
    found = view("here", parse(BEFORE), parse(NOW), 10.0)
    assert (found.messages_in, found.requests, found.produce_p99_ms) == (20.0, 4.0, 4.5)
    assert (found.under_replicated, found.is_controller, found.connections) == (2, True, 5)
    assert found.topics == {"orders": (10.0, 100.0, 0.0)}


def test_a_counter_that_began_again_has_grown_from_nought() -> None:
    assert rate(parse("a 100"), parse("a 5"), 5.0, "a") == 1.0
    assert rate({}, {}, 0.0, "a") == 0.0


def test_labels_may_hold_anything() -> None:
    found = parse('a{x="with \\"quotes\\", and } braces"} 1\nb NaN\nc nonsense\n')
    assert value(found, "a", x='with \\"quotes\\", and } braces') == 1
    assert len(found) == 2


def test_the_busiest_topics_of_all_brokers() -> None:
    one = BrokerView("a", topics={"x": (1, 10, 0), "y": (1, 5, 0)})
    two = BrokerView("b", topics={"y": (1, 20, 0)})
    assert busiest([one, two], 5) == [("y", 2, 25, 0), ("x", 1, 10, 0)]
    assert len(busiest([one, two], 1)) == 1
