"""The main walks in a real Chromium: forms, keys, live tails, searches, refreshing, phones, attacks."""

import json
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.spark.query.progress import QueryStatus
from moldau.streams import StreamsBuilder
from moldau.streams.topology.plan import plan
from moldau.testing import Broker
from tests.shared.hostile_texts import HOSTILE
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow

PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name)) is not None), None)
    if path is None:
        pytest.skip("no Chromium is installed: 'make chromium' as root, or your system's package")
    with playwright.sync_playwright() as running:
        options = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = running.chromium.launch(executable_path=path, args=options, timeout=PATIENCE_MS)
        yield browser
        browser.close()


class Tab:
    """A page that remembers everything that should not happen."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.context = browser.new_context(base_url=url, **options)
        self.context.set_default_timeout(PATIENCE_MS)
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.wrong.append(dialog.message), dialog.dismiss()))

    def _said(self, message: Any) -> None:
        # A form that was meant to be refused, or a cluster that was meant to be away.
        refused = "status of 400" in message.text or "status of 502" in message.text
        if message.type == "error" and not refused:
            self.wrong.append(message.text)


@pytest.fixture
def open_tab(chromium: Any, console: Any) -> Iterator[Any]:
    tabs: list[Tab] = []

    def open_it(**options: Any) -> Any:
        tabs.append(Tab(chromium, console.url, **options))
        return tabs[-1].page

    yield open_it
    for tab in tabs:
        tab.context.close()
    assert [each for tab in tabs for each in tab.wrong] == []


def test_a_topic_is_made_filled_searched_and_deleted(open_tab: Any, broker: Broker) -> None:
    page = open_tab()
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/topics")
    page.get_by_role("link", name="New topic").click()
    page.locator("input[name=name]").fill("a b")
    page.get_by_role("button", name="Create the topic").click()
    page.get_by_text("characters other than").wait_for()
    page.locator("input[name=name]").fill("shop.orders")
    page.locator("input[name=partitions]").fill("2")
    page.get_by_role("button", name="Create the topic").click()
    page.get_by_text("Topic shop.orders is there.").wait_for()
    page.get_by_role("link", name="Produce").click()
    page.locator("input[name=key]").fill("k1")
    page.get_by_label("Value is").select_option("json")
    page.locator("textarea[name=value]").fill('{"price": 120, "town": "Brno"}')
    page.get_by_role("button", name="Send the record").click()
    page.get_by_text("Sent: partition").wait_for()
    page.get_by_role("link", name="Messages").click()
    page.get_by_text('"town": "Brno"').wait_for()
    page.keyboard.press("/")
    page.keyboard.type("value.price > 100")
    page.keyboard.press("Enter")
    page.get_by_text("1 record looked at, 1 fits; everything was looked at.").wait_for()
    page.get_by_text('"town": "Brno"').wait_for()
    page.get_by_role("link", name="Partitions").click()
    page.get_by_text("Change or delete this topic").click()
    page.locator("form[action$=delete] input[name=name]").fill("shop.orders")
    page.get_by_role("button", name="Delete the topic").click()
    page.get_by_text("Topic shop.orders is deleted.").wait_for()
    assert broker.topics() == []


def test_a_live_tail_and_its_stop(open_tab: Any, broker: Broker) -> None:
    broker.create_topic("orders")
    page = open_tab()
    page.goto("/c/local/topics/orders/messages?live=true")
    page.get_by_text("Live: waiting").wait_for()
    number = 0

    def shown() -> bool:
        nonlocal number
        number += 1
        broker.produce("orders", f"record {number}".encode())
        return page.locator("tbody tr").count() > 0

    wait_until(shown)
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped.").wait_for()


def test_refreshing_never_loses_what_is_typed(open_tab: Any, broker: Broker) -> None:
    broker.create_topic("first")
    page = open_tab()
    page.goto("/c/local/topics")
    page.get_by_role("searchbox").fill("half a wo")
    broker.create_topic("second")
    page.get_by_role("link", name="second", exact=True).wait_for()
    assert page.get_by_role("searchbox").input_value() == "half a wo"
    page.goto("/c/local/topics/first")
    page.get_by_text("Change or delete this topic").click()
    page.locator("form[action$=delete] input[name=name]").fill("fir")
    page.evaluate("document.activeElement.blur()")
    broker.produce("first", b"x")
    page.keyboard.press("r")
    page.locator(".figure", has_text="Records").first.get_by_text("1", exact=True).wait_for()
    assert page.locator("form[action$=delete] input[name=name]").input_value() == "fir"


def test_a_page_says_that_it_is_old_and_comes_back_by_itself(open_tab: Any, broker: Broker) -> None:
    broker.create_topic("first")
    page = open_tab()
    page.goto("/c/local/topics")
    page.route("**/topics", lambda route: route.fulfill(status=502, body="away"))
    page.keyboard.press("r")
    page.get_by_text("does not answer. It is tried again by itself").wait_for()
    broker.create_topic("second")
    page.unroute("**/topics")
    page.keyboard.press("r")
    page.get_by_role("link", name="second", exact=True).wait_for()
    assert page.locator("#stale").is_hidden()
    icon = '<link rel="icon" href="data:,">'  # without one the browser asks for an icon that nobody has
    trouble = icon + '<div data-retry></div><script src="/assets/console.js"></script>'
    page.route("**/brokers", lambda route: route.fulfill(status=502, content_type="text/html", body=trouble))
    page.goto("/c/local/brokers")
    page.unroute("**/brokers")
    page.keyboard.press("r")
    page.get_by_role("heading", name="Balance").wait_for()


def test_hostile_records_run_nothing(open_tab: Any, broker: Broker) -> None:
    broker.create_topic("hostile")
    for text in HOSTILE:
        data = text.encode("utf-8", "surrogatepass")
        name = text.encode("utf-8", "replace").decode()[:100]
        broker.produce("hostile", data, key=data, headers=((name, data),))
        broker.produce("hostile", json.dumps({text: [text]}))
    page = open_tab()
    for place in range(0, 2 * len(HOSTILE), 200):
        page.goto(f"/c/local/topics/hostile/messages?from={place}&limit=200&partition=0")
        assert page.locator("tbody tr").count() > 0
        assert page.locator("tbody script, tbody img, tbody iframe, tbody input, tbody svg").count() == 0
        assert page.locator("tbody a").evaluate_all("all => all.every(each => each.protocol === 'http:')")
        assert page.evaluate("window.boomed") is None
    page.goto("/c/local/topics/hostile/messages?filter=offset+%3E%3D+0")  # through the stream
    page.get_by_text("stopped after 500 records that fit").or_(
        page.get_by_text("everything was looked at")
    ).wait_for()
    assert page.locator("tbody tr").count() > 100
    assert page.locator("tbody script, tbody img, tbody iframe, tbody input, tbody svg").count() == 0
    assert page.evaluate("window.boomed") is None


def test_an_application_is_looked_at_by_keys_alone(open_tab: Any, broker: Broker) -> None:
    builder = StreamsBuilder()
    builder.stream("lines").group_by(lambda value: value).count("counts").to_stream().to("words")
    for name in ("lines", "words"):
        broker.create_topic(name)

    def tell(state: str, lag: int, error: str | None = None) -> None:
        status = QueryStatus(
            "word-count",
            group="word-count",
            state=state,
            lag=({"lines": lag},),
            batch_duration_ms=25,
            kind="streams",
            plan=plan(builder.build()),
            error=error,
        )
        broker.produce("__moldau_pipelines", json.dumps(status.to_json()), key=b"word-count")

    tell("running", 10)
    page = open_tab()
    page.goto("/")
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.wait_for_url("**/pipelines")
    page.get_by_role("link", name="word-count").focus()
    page.keyboard.press("Enter")
    page.get_by_text("What it is made of").wait_for()
    boxes = page.locator("svg.graph .box")
    assert boxes.count() > 4
    places = [boxes.nth(number).bounding_box() for number in range(boxes.count())]
    corners = {(round(each["x"]), round(each["y"])) for each in places}
    assert len(corners) == len(places), "no box lies upon another"
    tell("failed", 77, "ValueError: <img src=x onerror=window.boomed=1>")
    page.keyboard.press("r")
    page.get_by_text("ValueError: <img").wait_for()
    page.locator(".figure", has_text="Records that wait").get_by_text("77", exact=True).wait_for()
    assert page.evaluate("window.boomed") is None
    page.locator("svg.graph a", has_text="lines").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/lines")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_sees_every_page(open_tab: Any, broker: Broker, scheme: str) -> None:
    name = "a-topic-with-a-name-that-is-longer-than-the-screen-of-a-phone-is-wide"
    broker.produce(name, b"x" * 300, key=b"k" * 80)
    page = open_tab(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    pages = [f"topics/{name}{below}" for below in ("", "/messages", "/configs", "/produce", "/groups")]
    status = QueryStatus("query", state="running", lag=({name: 5},), output="topic " + name)
    broker.produce("__moldau_pipelines", json.dumps(status.to_json()), key=b"query")
    more = ("pipelines", "pipelines/view?name=query", "schemas", "connect", "sql", "transactions", "audit")
    for path in ("", "topics", "groups", "brokers", "access", "new-topic", *more, *pages):
        page.goto(f"/c/local/{path}".rstrip("/"))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    page.goto("/c/local/audit")
    here = page.locator(".pages a.here").bounding_box()
    assert here["x"] >= 0, "where one is can be seen, though the row of pages is wider than the phone"
    assert here["x"] + here["width"] <= 360
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("d")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != back
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != back  # it is remembered
