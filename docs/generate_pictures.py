"""Takes the pictures of docs/console.md: ``python -m docs.generate_pictures [NAME ...]`` at the root.

Three brokers, a registry, a worker of Connect and consoles run in this process, and a shop that writes while
a Chromium looks at every page. Needs Debian's chromium and, to keep the files small, pngquant. Look at what
came out before it is committed.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.page_trace import opened
from moldau.console.masks import parse_mask
from moldau.console.oidc.settings import OidcSettings
from moldau.console.settings import ClusterSettings, ConsoleSettings
from moldau.spark.query.progress import FAILED, RUNNING, QueryStatus
from moldau.streams import StreamsBuilder
from moldau.streams.topology.plan import plan
from moldau.testing import Cluster
from moldau.web.server import ListenerOptions
from tests.connect.conftest import running as connect_worker
from tests.console.conftest import Browser, running_console
from tests.console.scene import AnyCluster
from tests.shared.services import running_registry

FOLDER = Path(__file__).parent / "console"
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
}
TOPICS = {"shop.orders": 6, "shop.clicks": 12, "shop.payments": 3, "shop.orders.dead-letters": 1, "prices": 1}
CARDS = ("debit", "credit", "gift")
TOWNS = ("Praha", "Brno", "Plzeň", "Děčín", "Telč")
#: So long the shop writes before the first picture, for plots that have something to show.
RUN_IN_SECONDS = 40.0
WIDE, PHONE = {"width": 1180, "height": 800}, {"width": 390, "height": 800}

ORDERS = "topics/shop.orders"
FILTER = "value.price+%3E+700+and+value.customer.town+%3D%3D+%22Brno%22"
SQL = """CREATE STREAM payments (paid INT, card STRING)
  WITH (KAFKA_TOPIC='shop.payments', VALUE_FORMAT='JSON');
SELECT card, COUNT(*) AS payments, SUM(paid) AS turnover, MAX(paid) AS largest
  FROM payments GROUP BY card;"""
#: Name of the picture, page, and what is done there first: a selector, and what is typed; nothing is a click.
PICTURES: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "overview": ("", []),
    "topics": ("topics", []),
    "new-topic": ("new-topic", [("input[name=name]", "shop.orders, all"), ("main button", "")]),
    "messages": (f"{ORDERS}/messages?filter={FILTER}", []),
    "message": (f"{ORDERS}/messages/one?partition=0&offset=3", []),
    "produce": (
        f"{ORDERS}/produce",
        [
            ("input[name=key]", "cz-1"),
            ("select[name=form]", "json"),
            ("textarea[name=value]", '{\n  "id": 1,\n  "price": 12\n}'),
        ],
    ),
    "topic": (ORDERS, []),
    "configs": (f"{ORDERS}/configs", []),
    "topic-groups": (f"{ORDERS}/groups", []),
    "time-travel": ("topics/prices/time-travel?at=now&show=table", []),
    "dead-letters": ("topics/shop.orders.dead-letters/dead-letters", []),
    "groups": ("groups", []),
    "group": ("groups/view?group=billing", []),
    "reset": (
        "groups/view?group=billing",
        [
            ("summary:has-text('Reset or delete')", ""),
            ("select[name=to]", "earliest"),
            ("button:has-text('Show the plan')", ""),
        ],
    ),
    "schemas": ("schemas", []),
    "schema": ("schemas/view?subject=shop.orders-value", []),
    "connectors": ("connect", []),
    "pipelines": ("pipelines", []),
    "application": ("pipelines/view?name=word-count", []),
    "sql": ("sql", [("textarea[name=statement]", SQL), ("main button", "")]),
    "brokers": ("brokers", []),
    "transactions": ("transactions", []),
    "transaction": ("transactions/view?id=billing-1", []),
    "access": ("access", []),
    "audit": ("audit", []),
    "phone": (ORDERS, []),
    "login": ("/login", []),
    "login-provider": ("/login", []),
}
DARK = {"group", "application"}
WHOLE = {"application"}


def order(number: int) -> dict[str, Any]:
    customer = {"town": TOWNS[number % len(TOWNS)], "card": f"4111-{number:04d}"}
    return {"id": number, "price": number * 37 % 900, "customer": customer}


def write_for_ever(servers: str, stop: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    chance, number = random.Random(1), 0
    while not stop.wait(0.05):
        for _ in range(chance.randrange(3)):
            number += 1
            headers = [("trace", b"%08x" % chance.randrange(1 << 32)), ("source", b"web")]
            value = json.dumps(order(number), ensure_ascii=False)
            producer.produce("shop.orders", value, f"cz-{number % 20}", headers=headers)
        for _ in range(chance.randrange(8)):
            producer.produce("shop.clicks", json.dumps({"page": f"/item/{chance.randrange(99)}"}))
        producer.poll(0)
    producer.flush(60)


def read_for_ever(servers: str, stop: threading.Event) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reports", "client.id": "reports-1"})
    consumer.subscribe(["shop.orders"])
    while not stop.is_set():
        consumer.poll(0.2)
    consumer.close()


def fill(servers: str, console: Browser) -> None:
    cluster, admin = AnyCluster(servers), AdminClient({"bootstrap.servers": servers})
    made = admin.create_topics([NewTopic(name, partitions, 3) for name, partitions in TOPICS.items()])
    for each in made.values():
        each.result(60)
    cluster.create_topic("__moldau_pipelines", "lines", "words")
    cluster.produce(
        "shop.payments",
        *({"value": json.dumps({"paid": each * 13, "card": CARDS[each % 3]})} for each in range(80)),
    )
    for key, value in (("tea", 3), ("milk", 1), ("tea", 4), ("bread", 2), ("milk", 2)):
        cluster.produce("prices", {"key": key, "value": json.dumps({"price": value, "currency": "CZK"})})
    for place, why in (
        (3, "ValueError: no price"),
        (17, "KeyError: 'customer'"),
        (40, "ValueError: no price"),
    ):
        told = {"topic": "shop.orders", "partition": "0", "offset": str(place), "error": why}
        headers = [(f"moldau.{name}", text.encode()) for name, text in told.items()]
        cluster.produce("shop.orders.dead-letters", {"value": '{"id": 3}', "headers": headers})
    cluster.commit("billing", "shop.orders", 5)
    cluster.commit("archive", "shop.payments", 80)
    fields = [{"name": "id", "type": "long"}, {"name": "price", "type": "int"}]
    for more in ([], [{"name": "currency", "type": "string", "default": "CZK"}]):
        schema = json.dumps({"type": "record", "name": "Order", "fields": [*fields, *more]})
        for subject in ("shop.orders-value", "shop.returns-value"):
            console.post("/schemas/new", subject=subject, type="AVRO", schema=schema, action="register")
    acl = {"permission": "3", "resource_type": "2", "pattern_type": "4", "host": "*"}
    for who, operation, name in (
        ("billing", "3", "shop."),
        ("reports", "8", "shop."),
        ("shop", "4", "shop.orders"),
    ):
        console.post("/access/add", principal=f"User:{who}", operation=operation, resource_name=name, **acl)
    console.post("/access/set-user", user="billing", password="a secret", mechanism="2")
    console.post("/access/quota", user="reports", quota="consumer_byte_rate", value="10485760")
    console.post("/topics/shop.orders/configs", config="retention.ms", value="86400000", action="set")


def tell_of_pipelines(cluster: AnyCluster, lag: int) -> None:
    builder = StreamsBuilder()
    builder.stream("lines").group_by(lambda value: value).count("counts").to_stream().to("words")
    words = {"group": "word-count", "kind": "streams", "state": RUNNING, "plan": plan(builder.build())}
    counts = {
        "batch_duration_ms": 20 + lag % 7,
        "rows": 9000 - lag,
        "processed_rows_per_second": 30.0 + lag % 11,
    }
    totals = {
        "processed_rows_per_second": 1250.0,
        "batch_duration_ms": 310,
        "pipeline": "shop",
        "state": RUNNING,
    }
    told = [
        QueryStatus("word-count", lag=({"lines": lag},), **counts, **words),
        QueryStatus("shop-totals", lag=({"shop.orders": 42},), **totals),
    ]
    broken = "ValueError: no price in shop.orders 0@17"
    told.append(QueryStatus("shop-refunds", state=FAILED, pipeline="shop", error=broken))
    for each in told:
        cluster.produce("__moldau_pipelines", {"key": each.name, "value": json.dumps(each.to_json())})


@contextmanager
def scene() -> Iterator[dict[str, str]]:
    """URLs of the console, and of those that ask who one is, by the names of their pictures."""
    stop = threading.Event()
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(3, SETTINGS, racks={1: "a", 2: "b", 3: "c"}))
        servers = cluster.bootstrap_servers
        registry = stack.enter_context(running_registry(servers)).url
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        texts = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
        sink = {**texts, "connector.class": "FileStreamSink", "topics": "shop.payments", "file": os.devnull}
        broken = {
            "name": "archive",
            "connector.class": "FileStreamSource",
            "file": "/",
            "topic": "lines",
        }
        worker = connect_worker(
            cluster, folder, [{"name": "payments-to-file", "tasks.max": "2", **sink}, broken]
        )
        connect = stack.enter_context(worker).url
        listener = ListenerOptions(stop_timeout_seconds=2)
        one = ClusterSettings("shop", servers, schema_registry=registry, connect=connect)
        masks = (parse_mask("shop.orders:value.customer.card"),)
        settings = ConsoleSettings((one,), listener, masks=masks, sample_seconds=2.0)
        provider = OidcSettings("https://login.example.com/realms/shop", "moldau-console")
        named, by_token = (
            ClusterSettings("shop", servers, {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": each})
            for each in ("SCRAM-SHA-512", "OAUTHBEARER")
        )
        consoles = {
            "": settings,
            "login": ConsoleSettings((named,), listener, login=True),
            "login-provider": ConsoleSettings((by_token,), listener, login=True, oidc=provider),
        }
        urls = {name: stack.enter_context(running_console(each)) for name, each in consoles.items()}
        fill(servers, Browser(urls[""], "shop"))
        for work in (write_for_ever, read_for_ever):
            thread = threading.Thread(target=work, args=(servers, stop))
            thread.start()
            stack.callback(thread.join)
        stack.callback(stop.set)
        patient = {"transactional.id": "billing-1", "transaction.timeout.ms": 600_000}
        hanging = Producer({"bootstrap.servers": servers, **patient})
        hanging.init_transactions(60)
        hanging.begin_transaction()
        hanging.produce("shop.payments", b"{}")
        hanging.flush(60)
        for lag in (900, 640, 300, 120, 60, 12):
            stop.wait(RUN_IN_SECONDS / 6)
            tell_of_pipelines(AnyCluster(servers), lag)
        yield urls


def take(browser: Any, url: str, name: str) -> None:
    path, steps = PICTURES[name]
    scheme = "dark" if name in DARK else "light"
    size = PHONE if name == "phone" else WIDE
    context = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    page.goto(url + path if path.startswith("/") else f"{url}/c/shop/{path}", wait_until="networkidle")
    for selector, typed in steps:
        field = page.locator(selector).first
        if not typed:
            field.click()
        elif selector.startswith("select"):
            field.select_option(typed)
        else:
            field.fill(typed)
    page.wait_for_load_state("networkidle")
    if "filter=" in path:
        page.get_by_text("everything was looked at").wait_for()
    file = FOLDER / f"{name}.png"
    page.screenshot(path=file, full_page=name in WHOLE)
    context.close()
    if shutil.which("pngquant"):
        subprocess.run(["pngquant", "--force", "--output", str(file), "128", str(file)], check=True)
    print(f"{name}: {file.stat().st_size / 1024:.0f} KiB")


def main() -> None:
    names = sys.argv[1:] or list(PICTURES)
    with scene() as urls, opened() as browser:
        for name in names:
            take(browser, urls.get(name, urls[""]), name)


if __name__ == "__main__":
    main()
