"""``moldau up --demo`` as a whole: a real broker, registry and Spark; what comes out is what went in."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.dataset
import pytest
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from moldau.pipelines.demo.records import ORDER_SCHEMA
from moldau.pipelines.demo.shop import JOIN_SECONDS
from moldau.spark.session.java import JavaNotFound, find_java

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SECONDS = 8
WINDOW_SECONDS = 10
SCHEMA = fastavro.parse_schema(json.loads(ORDER_SCHEMA))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a run said, and where its data is."""
    try:
        find_java()
    except JavaNotFound as missing:
        pytest.skip(str(missing))
    data = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "moldau", "up", "--demo", "--seconds", str(SECONDS), "--rate", "400"]
    done = subprocess.run(
        [*command, "--port", "0", "--registry-port", "0", "--console-port", "0", "--data-dir", str(data)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=390,
    )
    logs = "".join(f"\n{log}:\n{log.read_text()}" for log in sorted((data / "up").iterdir()))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    return done.stdout, data


class Run:
    """All that the topics and the table hold after a run."""

    def __init__(self, servers: str, data: Path) -> None:
        self.orders: list[tuple[tuple[int, int], dict[str, Any] | None]] = [
            ((message.partition(), message.offset()), decoded(message.value()))
            for message in messages(servers, "orders")
        ]
        self.clicks = [json.loads(message.value()) for message in messages(servers, "clicks")]
        self.customers = {
            c["customer_id"]: c for m in messages(servers, "customers") if (c := json.loads(m.value()))
        }
        self.revenue = {m.key().decode(): json.loads(m.value()) for m in messages(servers, "revenue")}
        self.conversions = [json.loads(message.value()) for message in messages(servers, "conversions")]
        self.rejected = list(messages(servers, "orders.dead-letter"))
        table = data / "demo" / "demo" / "tables" / "orders"
        self.table = pyarrow.dataset.dataset(table, partitioning="hive").to_table().to_pylist()

    @property
    def good(self) -> list[dict[str, Any]]:
        """Orders that can be read, of somebody who is known, for something."""
        read = [order for _, order in self.orders if order is not None]
        return [o for o in read if o["quantity"] > 0 and o["customer_id"] in self.customers]


def decoded(value: bytes) -> dict[str, Any] | None:
    if value[:1] != b"\0":
        return None
    order = fastavro.schemaless_reader(BytesIO(value[5:]), SCHEMA, None)
    assert isinstance(order, dict)
    return order


def messages(servers: str, topic: str) -> Iterator[Message]:
    """Every committed record of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    for index in consumer.list_topics(topic).topics[topic].partitions:
        consumer.assign([TopicPartition(topic, index, 0)])
        while (message := consumer.poll(30)) is not None and message.error() is None:
            yield message
        assert message is not None
        assert message.error().code() == KafkaError._PARTITION_EOF
    consumer.close()


@pytest.fixture(scope="module")
def run(demo: tuple[str, Path]) -> Iterator[Run]:
    """The broker once more, on the data of the run: what was committed is what is read."""
    command = [sys.executable, "-m", "moldau", "broker", "--port", "0", "--data-dir", str(demo[1])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as broker:
        assert broker.stdout is not None
        ready = re.search(r"PLAINTEXT://(\S+) ", broker.stdout.readline())
        assert ready is not None
        try:
            yield Run(ready[1], demo[1])
        finally:
            broker.terminate()


def test_it_shows_what_it_does_and_ends_with_a_summary(demo: tuple[str, Path]) -> None:
    said, _ = demo
    assert re.search(r"broker +127\.0\.0\.1:\d+ ", said)
    assert re.search(r"registry +http://127\.0\.0\.1:\d+ ", said)
    assert re.search(r"^first result after \d+\.\d s$", said, re.MULTILINE)
    assert re.search(r"^ran \d+\.\d s; first result after \d+\.\d s$", said, re.MULTILINE)
    assert "results are not whole" not in said
    for query in ("revenue", "conversions", "conversions-clicks", "rejected", "orders"):
        assert f"  demo-{query}: lag 0\n" in said
    assert said.endswith("moldau stopped\n")


def test_the_summary_counts_what_is_there(demo: tuple[str, Path], run: Run) -> None:
    said, _ = demo
    assert f"  orders: {len(run.orders):,} records written\n" in said
    assert f"  clicks: {len(run.clicks):,} records written\n" in said
    assert f"  conversions: {len(run.conversions):,} results\n" in said
    assert f"  bad records: {len(run.rejected):,}\n" in said


def test_every_bad_order_is_a_dead_letter_with_its_reason(run: Run) -> None:
    expected = {}
    for place, order in run.orders:
        if order is None:
            expected[place] = "value: "
        elif order["quantity"] <= 0:
            expected[place] = "quantity is not positive"
        elif order["customer_id"] not in run.customers:
            expected[place] = "customer is not known"
    found = {}
    for message in run.rejected:
        headers = {name: value.decode() for name, value in message.headers() or ()}
        found[int(headers["moldau.partition"]), int(headers["moldau.offset"])] = headers["moldau.error"]
    assert found.keys() == expected.keys()
    assert len(expected) > 1
    for place, reason in expected.items():
        assert found[place].startswith(reason)


def test_the_table_holds_every_good_order_once_with_its_customer(run: Run) -> None:
    expected = [
        (o["order_id"], run.customers[o["customer_id"]]["town"], o["quantity"] * o["price"], o["at"])
        for o in run.good
    ]
    # Spark writes times in UTC, and Parquet's oldest type does not say so.
    found = [
        (row["order_id"], row["town"], row["amount"], row["at"].to_pydatetime().replace(tzinfo=UTC))
        for row in run.table
    ]
    assert sorted(found) == sorted(expected)
    assert len(found) > 20


def test_windows_hold_what_was_ordered_in_time(run: Run) -> None:
    first = min(time_of(click) for click in run.clicks)
    expected: dict[tuple[datetime, str], list[int]] = defaultdict(lambda: [0, 0])
    for order in run.good:
        start = datetime.fromtimestamp(order["at"].timestamp() // WINDOW_SECONDS * WINDOW_SECONDS, UTC)
        window = expected[start, run.customers[order["customer_id"]]["town"]]
        window[0] += 1
        window[1] += order["quantity"] * order["price"]
    found = {
        (datetime.fromisoformat(row["window_start"]), row["town"]): [row["orders"], row["amount"]]
        for row in run.revenue.values()
    }
    # What came minutes late is counted only if no batch was before it.
    began = datetime.fromtimestamp(first.timestamp() // WINDOW_SECONDS * WINDOW_SECONDS, UTC)
    in_time = {key: sums for key, sums in expected.items() if key[0] >= began}
    assert {key: sums for key, sums in found.items() if key[0] >= began} == in_time
    assert len(in_time) > 3


def test_conversions_are_orders_with_their_clicks(run: Run) -> None:
    clicks: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for click in run.clicks:
        clicks[click["customer_id"], click["product"]].append(click)
    expected = [
        (order["order_id"], click["click_id"])
        for order in run.good
        for click in clicks[order["customer_id"], order["product"]]
        if 0 <= (order["at"] - time_of(click)).total_seconds() <= JOIN_SECONDS
    ]
    found = [(row["order_id"], row["click_id"]) for row in run.conversions]
    assert sorted(found) == sorted(expected)
    assert len(found) > 20


def time_of(click: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(click["at"])
