"""Messages over HTTP: places, filters, masks, downloads, one record; hostile ones are text."""

import csv
import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from moldau.testing import Broker
from tests.shared.hostile_texts import HOSTILE


@pytest.fixture
def orders(broker: Broker) -> Broker:
    broker.create_topic("orders", 2)
    for number in range(120):
        value = json.dumps({"id": number, "price": number * 10, "card": "4111"})
        broker.produce(
            "orders",
            value,
            key=f"cz-{number % 4}",
            partition=number % 2,
            headers=(("trace", b"t%d" % number),),
            timestamp_ms=1_000_000 + number * 1_000,
        )
    return broker


def ids(page: Any) -> list[int]:
    return [int(found) for found in re.findall(r"&quot;id&quot;: (\d+)", page.text)]


def test_the_newest_come_first_and_older_ones_follow(console: Any, orders: Broker) -> None:
    page = console.get("/topics/orders/messages")
    assert ids(page) == list(range(119, 69, -1))
    seen = ids(page)
    while (older := re.search(r'href="(/c/local/[^"]*before=[^"]*)">←', page.text)) is not None:
        from tests.console.conftest import Page

        page = Page(console.http.get(older[1].replace("&amp;", "&")))
        if not ids(page):
            break
        seen += ids(page)
    assert seen == list(range(119, -1, -1))


@pytest.mark.slow
def test_places(console: Any, orders: Broker) -> None:
    assert ids(console.get("/topics/orders/messages", from_="earliest"))[:3] == [0, 1, 2]
    assert ids(console.get("/topics/orders/messages", from_="50", partition=0))[:2] == [100, 102]
    assert ids(console.get("/topics/orders/messages", from_="1970-01-01T00:18:20Z")) == list(range(100, 120))
    assert ids(console.get("/topics/orders/messages", from_="now")) == []
    assert ids(console.get("/topics/orders/messages", from_="earliest", limit=5)) == [0, 1, 2, 3, 4]
    for wrong in ({"from_": "soon"}, {"partition": "9"}, {"partition": "x"}, {"at": "1;2"}, {"limit": "x"}):
        page = console.get("/topics/orders/messages", **wrong)
        assert page.status == 400, wrong


def test_pages_onwards_show_each_once(console: Any, orders: Broker) -> None:
    from tests.console.conftest import Page

    page = console.get("/topics/orders/messages", from_="earliest", limit=33)
    seen = ids(page)
    while (following := re.search(r'href="([^"]*[?&;]at=[^"]*)">Next', page.text)) is not None:
        page = Page(console.http.get(following[1].replace("&amp;", "&")))
        seen += ids(page)
    assert seen == list(range(120))


@pytest.mark.slow
def test_times_out_of_order_lose_nothing(console: Any, broker: Broker) -> None:
    from tests.console.conftest import Page

    broker.create_topic("mixed", 2)
    for number in range(60):
        moment = 1_000_000 + (number * 37 % 60) * 1_000
        broker.produce("mixed", json.dumps({"id": number}), partition=number % 2, timestamp_ms=moment)
    for first, following in (({"limit": 7}, "before"), ({"limit": 7, "from_": "earliest"}, "at")):
        page = console.get("/topics/mixed/messages", **first)
        seen = ids(page)
        while (
            link := re.search(rf'<a href="([^"]*[?&;]{following}=[^"]*)">(?:Next|←)', page.text)
        ) is not None:
            page = Page(console.http.get(link[1].replace("&amp;", "&")))
            seen += ids(page)
        assert sorted(seen) == list(range(60))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["from_", "at", "before", "partition", "limit", "filter", "key"])
def test_numbers_that_nobody_has(console: Any, orders: Broker, name: str) -> None:
    for value in (
        "9" * 5000,
        "-" + "9" * 30,
        "1e999",
        "0:" + "9" * 5000,
        "99999999w ago",
        "9" * 400 + "w ago",
    ):
        assert console.get("/topics/orders/messages", **{name: value}).status in (200, 400), value


def test_filters_without_a_script(console: Any, orders: Broker) -> None:
    page = console.get("/topics/orders/messages", filter="value.price >= 1170 or offset == 0", noscript="1")
    assert sorted(ids(page)) == [0, 1, 117, 118, 119]
    assert "120 records looked at, 5 fit; everything was looked at" in page.words
    page = console.get("/topics/orders/messages", key="cz-3", noscript="1", limit=500)
    assert len(ids(page)) == 30
    page = console.get("/topics/orders/messages", filter="value.price >>> 1")
    assert (page.status, "cannot be understood" in page.words) == (400, True)


def test_a_search_that_ends_goes_on_with_the_next_record(console: Any, orders: Broker) -> None:
    from tests.console.conftest import Page

    page = console.get("/topics/orders/messages", filter="value.price >= 0", noscript="1", limit=7)
    seen = ids(page)
    assert len(seen) == 7
    while (on := re.search(r'href="([^"]*)">Search on', page.text)) is not None:
        page = Page(console.http.get(on[1].replace("&amp;", "&")))
        seen += ids(page)
    assert sorted(seen) == list(range(120))


@pytest.mark.parametrize("first", [{}, {"from_": "earliest"}])
def test_large_records_are_paged_by_their_bytes(
    console: Any, orders: Broker, monkeypatch: pytest.MonkeyPatch, first: dict[str, str]
) -> None:
    """A page of a topic with records of a megabyte would take the memory of the machine."""
    from tests.console.conftest import Page

    monkeypatch.setattr("moldau.console.records._PAGE_BYTES", 1_000)
    page = console.get("/topics/orders/messages", **first)
    seen = ids(page)
    assert 2 <= len(seen) < 40
    assert seen[:2] == ([0, 1] if first else [119, 118])
    while (on := re.search(r'<a href="([^"]*[?&;](?:at|before)=[^"]*)">(?:Next|←)', page.text)) is not None:
        page = Page(console.http.get(on[1].replace("&amp;", "&")))
        seen += ids(page)
    assert sorted(seen) == list(range(120))


def test_a_search_keeps_no_more_than_a_few_bytes(
    console: Any, orders: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.console.conftest import Page

    monkeypatch.setattr("moldau.console.records._SEARCH_BYTES", 200)
    monkeypatch.setattr("moldau.console.records._DECODED_AT_ONCE", 5)
    page = console.get("/topics/orders/messages", filter="value.price >= 0", noscript="1")
    seen = ids(page)
    assert len(seen) == 5
    while (on := re.search(r'href="([^"]*)">Search on', page.text)) is not None:
        page = Page(console.http.get(on[1].replace("&amp;", "&")))
        seen += ids(page)
    assert sorted(seen) == list(range(120))


def test_records_behind_offsets_without_any_are_found(console: Any, orders: Broker) -> None:
    """The newest offsets are those of a transaction that was aborted."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": orders.bootstrap_servers, "transactional.id": "aborted"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(300):
        producer.produce("orders", b"never", partition=0)
    producer.flush(30)
    producer.abort_transaction(30)
    page = console.get("/topics/orders/messages", partition=0)
    assert ids(page) == list(range(118, 18, -2))
    assert "never" in console.get("/topics/orders/messages", partition=0, uncommitted="true").words


def test_a_place_that_is_typed_counts_more_than_the_place_of_a_group(console: Any, orders: Broker) -> None:
    page = console.get("/topics/orders/messages", unread_by="nobody", from_="119")
    assert (ids(page), "has not read yet" in page.words) == ([], False)


def test_a_wrong_filter_is_there_to_be_corrected(console: Any, orders: Broker) -> None:
    page = console.get("/topics/orders/messages", filter="value.price >>> 1", key="cz-1", from_="earliest")
    assert 'value="value.price &gt;&gt;&gt; 1"' in page.text
    assert 'value="cz-1"' in page.text
    assert 'value="earliest"' in page.text


def test_one_record(console: Any, orders: Broker) -> None:
    page = console.get("/topics/orders/messages/one", partition=1, offset=3)
    assert "&quot;id&quot;: 7" in page.text
    assert "t7" in page.words
    gone = console.get("/topics/orders/messages/one", partition=1, offset=3000)
    assert (gone.status, "There is no record at offset 3000" in gone.words) == (200, True)


def test_downloads(console: Any, orders: Broker) -> None:
    answer = console.http.get("/c/local/topics/orders/messages/download?format=csv&filter=value.id<3")
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''orders.csv"
    assert answer.headers["x-content-type-options"] == "nosniff"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert sorted(json.loads(row["value"])["id"] for row in rows) == [0, 1, 2]
    lines = console.http.get("/c/local/topics/orders/messages/download?format=json").text.splitlines()
    assert len(lines) == 120
    assert "download" in console.get("/audit").words


def test_a_download_has_what_the_page_shows(
    console: Any, orders: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.console.downloads.MAX_RECORDS", 10)
    address = "/c/local/topics/orders/messages/download?format=json"

    def downloaded(more: str = "") -> tuple[list[int], str]:
        answer = console.http.get(address + more)
        found = [json.loads(line)["value"]["id"] for line in answer.text.splitlines()]
        return sorted(found), answer.headers["content-disposition"].rpartition("'")[2]

    assert downloaded() == (list(range(110, 120)), "orders.jsonl")
    assert downloaded("&before=0:30,1:30")[0] == list(range(50, 60))
    some, name = downloaded("&from=earliest")
    assert (len(some), name) == (10, "orders-part.jsonl")
    assert downloaded("&filter=value.id<3") == ([0, 1, 2], "orders.jsonl")


def test_a_mask_of_all_headers(make_console: Callable[..., Any], orders: Broker) -> None:
    page = make_console(masks=["orders:headers"]).get("/topics/orders/messages")
    assert (page.status, "t119" in page.text, "trace: •••" in page.words) == (200, False, True)


def test_masks_hide_everywhere(make_console: Callable[..., Any], orders: Broker) -> None:
    console = make_console(masks=["orders:value.card", "orders:headers.trace"])
    for path in (
        "/topics/orders/messages",
        "/topics/orders/messages/one?partition=0&offset=0",
        "/topics/orders/messages/download?format=json",
        "/topics/orders/time-travel?at=now",
        "/topics/orders/time-travel?at=now&show=table",
    ):
        answer = console.http.get(f"/c/local{path}")
        assert answer.status_code == 200
        assert "4111" not in answer.text, path
        assert ">t7<" not in answer.text
    # A filter cannot find out what is hidden.
    found = console.get("/topics/orders/messages", filter='value.card == "4111"', noscript="1")
    assert "0 fit" in found.words
    again = console.post("/topics/orders/messages/again", partition="0", offset="0", to="orders")
    assert (again.status, "cannot be sent on" in again.words) == (400, True)


def test_what_a_group_has_not_read(console: Any, orders: Broker) -> None:
    from moldau.base.names import TopicPartition
    from moldau.client.groups.descriptions import CommittedOffset
    from moldau.client.groups.groups import Groups
    from moldau.client.transport.cluster import Cluster

    async def commit() -> None:
        async with await Cluster.open(orders.bootstrap_servers) as cluster:
            offsets = {TopicPartition("orders", index): CommittedOffset(58 + 2 * index) for index in (0, 1)}
            await Groups(cluster).commit("billing", offsets)

    orders.run(commit())
    page = console.get("/topics/orders/messages", unread_by="billing")
    assert ids(page) == [116, 118]
    assert "What the group billing has not read yet" in page.words
    groups = console.get("/topics/orders/groups").words
    assert "billing Empty 2 2 what it has not read yet" in groups


def test_hostile_records_are_text(console: Any, broker: Broker) -> None:
    broker.create_topic("hostile")
    for text in HOSTILE:
        data = text.encode("utf-8", "surrogatepass")
        name = text.encode("utf-8", "replace").decode()
        broker.produce("hostile", data, key=data, headers=((name[:100], data),))
        broker.produce("hostile", json.dumps({text: text}), headers=(("x", None),))
    seen = 0
    for place in range(0, 2 * len(HOSTILE), 200):
        page = console.get("/topics/hostile/messages", from_=str(place), limit=200)
        assert page.status == 200
        seen += page.text.count("<tr>") - 1
        lowered = page.text.lower()
        # The page's own script is the only one, and no element of the page has a handler.
        assert lowered.count("<script") == 1
        for piece in ("<img", "<svg onload", "<iframe", "<details open ontoggle", "<base", "<object"):
            assert piece not in lowered
        assert re.search(r"<[a-z]+[^>]*\son[a-z]+\s*=", re.sub(r'"[^"]*"', '""', lowered)) is None
    assert seen == 2 * len(HOSTILE)
