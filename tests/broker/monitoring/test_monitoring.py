"""A real broker, looked at from outside: scrapes, MBeans, health, OTLP; each number moves with what
happens.
"""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.broker.bounds.turns import Turn
from moldau.metrics import broker_metrics
from moldau.metrics.table import TABLE
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.testing import Broker, Cluster
from tests.contract.batches import batch
from tests.contract.scene import produce_request
from tests.contract.wire import Wire
from tests.shared.waiting import turns, wait_until

SETTINGS: dict[str, Any] = {"moldau.metrics.port": 0}


class Seen:
    """A broker as monitoring sees it."""

    def __init__(self, broker: Broker) -> None:
        monitoring = broker.node.monitoring
        assert monitoring is not None
        assert monitoring.address is not None
        self.url = "http://{}:{}".format(*monitoring.address)

    def get(self, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def scrape(self) -> dict[str, float]:
        """Every series by its name with labels."""
        status, text = self.get("/metrics")
        assert status == 200
        lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in lines}

    def mbean(self, name: str, attribute: str = "Value") -> Any:
        answer = json.loads(self.get("/jolokia", {"type": "read", "mbean": name, "attribute": attribute})[1])
        assert answer["status"] == 200, answer
        return answer["value"]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as running:
        yield running


@pytest.fixture
def seen(broker: Broker) -> Seen:
    return Seen(broker)


@pytest.mark.parametrize("way", ["/metrics", "/jolokia/list"])
def test_topics_that_come_during_a_look_do_not_spoil_it(
    broker: Broker, seen: Seen, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A look gives way to others at every step here; they make topics."""

    async def give_way(_: Turn) -> None:
        await turns()

    monkeypatch.setattr(Turn, "over", True)
    monkeypatch.setattr(Turn, "give_way", give_way)
    monkeypatch.setattr("moldau.broker.monitoring.monitoring._LINES_AT_ONCE", 1)
    broker.create_topic("first", partitions=20)
    found: list[int] = []
    looking = Thread(target=lambda: found.append(seen.get(way)[0]))
    looking.start()
    for number in range(5):
        broker.create_topic(f"t{number}")
    looking.join()
    assert found == [200]


def test_what_is_produced_and_fetched_is_counted(broker: Broker, seen: Seen) -> None:
    broker.create_topic("orders", partitions=2)
    before = seen.scrape()
    wire = Wire(broker.port)
    for number in range(5):
        records = batch(f"order {number}".encode(), timestamp=broker.clock.now_ms())
        assert (
            not wire.ask(produce_request("orders", records), 9).responses[0].partition_responses[0].error_code
        )
    wire.ask(produce_request("nothing", records), 9)
    asked = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)]
    answer = wire.ask(FetchRequest(min_bytes=1, topics=[FetchTopic("orders", partitions=asked)]), 12)
    sent = len(answer.responses[0].partitions[0].records)
    after = seen.scrape()
    assert after['kafka_server_brokertopicmetrics_bytesin_total{topic="orders"}'] == 5 * len(records)
    assert after['kafka_server_brokertopicmetrics_bytesout_total{topic="orders"}'] == sent == 5 * len(records)
    assert after["kafka_server_brokertopicmetrics_failedproducerequests_total"] == 1
    assert after['kafka_network_requestmetrics_requests_total{request="Produce",version="9"}'] == 6
    assert after['kafka_network_requestmetrics_requests_total{request="FetchConsumer",version="12"}'] == 1
    error = "UNKNOWN_TOPIC_OR_PARTITION"
    assert after[f'kafka_network_requestmetrics_errors_total{{request="Produce",error="{error}"}}'] == 1
    assert after['kafka_network_requestmetrics_totaltimems_count_total{request="Produce"}'] >= 1
    assert (
        after[
            'kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT",networkProcessor="0"}'
        ]
        >= 1
    )
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    assert after[f'{name}{{topic="orders"}}'] == 5
    assert after[name] - before[name] == 5
    assert after['kafka_log_log_logendoffset{topic="orders",partition="0"}'] == 5
    assert after['kafka_log_log_logendoffset{topic="orders",partition="1"}'] == 0
    assert seen.mbean("kafka.server:type=ReplicaManager,name=LeaderCount") == 2


def test_topics_come_while_a_scrape_is_written(broker: Broker) -> None:
    broker.create_topic("orders", partitions=2)
    monitoring = broker.node.monitoring
    assert monitoring is not None
    values = [iter(each.values) for each in monitoring.sources.read("kafka.log", "Log")]
    before = [next(each) for each in values]
    broker.create_topic("payments")
    assert [len(list(each)) for each in values] == [1] * len(before)


def test_every_metric_that_is_shown_is_in_the_table(seen: Seen) -> None:
    _, text = seen.get("/metrics")
    shown = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
    assert shown <= {name for metric in TABLE for name in metric.prometheus_names}
    assert broker_metrics.STATE.prometheus in shown
    assert len(shown) > 80
    openmetrics = seen.get("/metrics", accept="application/openmetrics-text; version=1.0.0")[1]
    assert openmetrics.endswith("# EOF\n")


def test_mbeans_are_found_by_kafkas_names(seen: Seen) -> None:
    assert seen.mbean("kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions") == 0
    assert seen.mbean("kafka.controller:type=KafkaController,name=ActiveControllerCount") == 1
    assert seen.mbean("kafka.server:type=KafkaServer,name=BrokerState") == 3
    idle = seen.mbean(
        "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent", "OneMinuteRate"
    )
    assert 0 <= idle <= 1
    listed = json.loads(seen.get("/jolokia/list")[1])["value"]
    assert "name=UnderReplicatedPartitions,type=ReplicaManager" in listed["kafka.server"]
    assert json.loads(seen.get("/jolokia", ["rubbish"])[1])[0]["status"] == 400
    request = urllib.request.Request(f"{seen.url}/jolokia", b"{", {})
    with urllib.request.urlopen(request, timeout=60) as response:
        assert json.loads(response.read())["status"] == 400


def test_health_and_readiness(broker: Broker, seen: Seen) -> None:
    for path in ("/healthz", "/readyz"):
        status, text = seen.get(path)
        assert (status, json.loads(text)["status"]) == (200, "ok")
    broker.node.services.stopping = True
    status, text = seen.get("/readyz")
    assert (status, json.loads(text)["checks"]["running"]) == (503, "the broker is about to stop")
    assert seen.get("/healthz")[0] == 200
    broker.node.services.stopping = False


def test_pages_that_are_not_there(seen: Seen) -> None:
    assert seen.get("/")[0] == 200
    assert seen.get("/nothing")[0] == 404
    assert seen.get("/metrics", {})[0] == 405


def test_without_the_setting_nothing_listens() -> None:
    with Broker() as quiet:
        assert quiet.node.monitoring is None


@pytest.mark.slow
def test_the_numbers_of_the_guides_move_when_a_broker_dies_and_come_back() -> None:
    with Cluster(2, SETTINGS | {"default.replication.factor": 2}) as cluster:
        here = wait_until(lambda: cluster.controller_id, "a controller")
        other = 3 - here
        cluster[here].create_topic("orders", partitions=4)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("alone", 2, 1)])["alone"].result(60)  # one on each broker
        one = Seen(cluster[here])

        def urp() -> float:
            return float(one.mbean("kafka.server:type=ReplicaManager,name=UnderReplicatedPartitions"))

        def controller(name: str) -> float:
            return float(one.mbean(f"kafka.controller:type=KafkaController,name={name}"))

        wait_until(lambda: urp() == 0, "everything is in sync")
        cluster.kill(other)
        wait_until(lambda: controller("FencedBrokerCount") == 1, "the dead broker is fenced")
        wait_until(lambda: urp() == 4, "what is left is led here, without its follower")
        assert controller("ActiveControllerCount") == 1
        wait_until(lambda: controller("OfflinePartitionsCount") == 1, "nobody else has it")
        elections = "kafka.controller:type=ControllerStats,name=LeaderElectionRateAndTimeMs"
        assert one.mbean(elections, "Count") >= 1
        cluster.restart(other)
        wait_until(lambda: urp() == 0, "the follower is back")
        wait_until(lambda: controller("FencedBrokerCount") == 0, "it is there again")
        assert controller("OfflinePartitionsCount") == 0
        two = Seen(cluster[other])
        expands = one.mbean("kafka.server:type=ReplicaManager,name=IsrExpandsPerSec", "Count")
        assert expands >= 4
        assert two.mbean("kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica") == 0


class Collector(BaseHTTPRequestHandler):
    received: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).received.append(json.loads(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        pass


def test_metrics_are_sent_to_a_collector() -> None:
    Collector.received = []
    server = HTTPServer(("127.0.0.1", 0), Collector)
    Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}/v1/metrics"
    try:
        with Broker({"moldau.metrics.otlp.endpoint": endpoint}):
            wait_until(lambda: Collector.received, "the first push")
    finally:
        server.shutdown()
        server.server_close()
    (resource,) = Collector.received[0]["resourceMetrics"]
    names = {metric["name"] for metric in resource["scopeMetrics"][0]["metrics"]}
    assert "kafka_server_replicamanager_underreplicatedpartitions" in names
