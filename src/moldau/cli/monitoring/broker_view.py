"""What brokers do, from two scrapes of each: rates, waits and what is wrong. Pure.

Invariant: a broker that could not be scraped is shown as such, and the others all the same.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_SERIES = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_TOPICS = "kafka_server_brokertopicmetrics_"
_TIMES = "kafka_network_requestmetrics_totaltimems"

#: A series: its name and its labels.
Key = tuple[str, frozenset[tuple[str, str]]]
Scrape = Mapping[Key, float]


def parse(text: str) -> dict[Key, float]:
    """Every series of a scrape; lines that are none are passed over."""
    found: dict[Key, float] = {}
    for line in text.splitlines():
        match = None if line.startswith("#") else _SERIES.match(line)
        if match is not None:
            try:
                found[match[1], frozenset(_LABEL.findall(match[2] or ""))] = float(match[3])
            except ValueError:
                continue
    return found


def value(scrape: Scrape, name: str, **labels: str) -> float:
    return scrape.get((name, frozenset(labels.items())), 0.0)


def rate(before: Scrape, now: Scrape, seconds: float, name: str, **labels: str) -> float:
    """How fast a counter grows; one that began again has grown from nought."""
    grown = value(now, name, **labels) - value(before, name, **labels)
    return (grown if grown >= 0 else value(now, name, **labels)) / seconds if seconds > 0 else 0.0


def total_rate(before: Scrape, now: Scrape, seconds: float, name: str) -> float:
    """Of all series of a name together."""
    return sum(rate(before, now, seconds, name, **dict(labels)) for each, labels in now if each == name)


@dataclass(frozen=True, slots=True)
class BrokerView:
    address: str
    error: str = ""
    messages_in: float = 0.0
    bytes_in: float = 0.0
    bytes_out: float = 0.0
    requests: float = 0.0
    produce_p99_ms: float = 0.0
    fetch_p99_ms: float = 0.0
    idle: float = 0.0
    lag_p99_ms: float = 0.0
    connections: int = 0
    partitions: int = 0
    leaders: int = 0
    under_replicated: int = 0
    offline: int = 0
    memory_bytes: int = 0
    is_controller: bool = False
    #: Records and bytes a second by topic.
    topics: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)


def view(address: str, before: Scrape, now: Scrape, seconds: float) -> BrokerView:
    def grows(name: str) -> float:
        return rate(before, now, seconds, name)

    topics: dict[str, tuple[float, float, float]] = {}
    for name, labels in now:
        if name == f"{_TOPICS}messagesin_total" and labels:
            topic = dict(labels)["topic"]
            topics[topic] = (
                rate(before, now, seconds, name, topic=topic),
                rate(before, now, seconds, f"{_TOPICS}bytesin_total", topic=topic),
                rate(before, now, seconds, f"{_TOPICS}bytesout_total", topic=topic),
            )
    connections = sum(
        found
        for (name, _), found in now.items()
        if name == "kafka_server_socket_server_metrics_connection_count"
    )
    return BrokerView(
        address,
        "",
        grows(f"{_TOPICS}messagesin_total"),
        grows(f"{_TOPICS}bytesin_total"),
        grows(f"{_TOPICS}bytesout_total"),
        total_rate(before, now, seconds, "kafka_network_requestmetrics_requests_total"),
        value(now, _TIMES, request="Produce", quantile="0.99"),
        value(now, _TIMES, request="FetchConsumer", quantile="0.99"),
        value(now, "kafka_network_socketserver_networkprocessoravgidle_percent"),
        value(now, "moldau_broker_eventloop_lagms", quantile="0.99"),
        int(connections),
        int(value(now, "kafka_server_replicamanager_partitioncount")),
        int(value(now, "kafka_server_replicamanager_leadercount")),
        int(value(now, "kafka_server_replicamanager_underreplicatedpartitions")),
        int(value(now, "kafka_controller_kafkacontroller_offlinepartitionscount")),
        int(value(now, "moldau_broker_memory_residentbytes")),
        value(now, "kafka_controller_kafkacontroller_activecontrollercount") == 1,
        topics,
    )


def busiest(views: list[BrokerView], most: int) -> list[tuple[str, float, float, float]]:
    """Topics over all brokers, those with most traffic first."""
    sums: dict[str, list[float]] = {}
    for each in views:
        for topic, rates in each.topics.items():
            known = sums.setdefault(topic, [0.0, 0.0, 0.0])
            for index, found in enumerate(rates):
                known[index] += found
    ordered = sorted(sums.items(), key=lambda pair: (-(pair[1][1] + pair[1][2]), pair[0]))
    return [(topic, *rates) for topic, rates in ordered[:most]]  # type: ignore[misc]
