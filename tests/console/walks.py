"""The main walks through the console: what people do in it, in a real browser.

One list, for every cluster: ``test_browser.py`` plays it on Moldau, ``tests/conformance/test_console.py`` on
Apache Kafka as well. A walk asks its cluster for nothing that only one of them has.
"""

import json
import os
from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaException, Producer

from moldau.spark.query.progress import QueryStatus
from moldau.streams import StreamsBuilder
from moldau.streams.topology.plan import plan
from tests.console.scene import PATIENCE_SECONDS, Scene, values
from tests.shared.hostile_texts import HOSTILE, PAYLOADS
from tests.shared.waiting import wait_until

Walk = Callable[[Scene], None]
_NOTHING_STRANGE = "tbody script, tbody img, tbody iframe, tbody input, tbody svg"


# --- topics and messages ----------------------------------------------------------------------------


def a_topic_is_made_filled_searched_and_deleted(scene: Scene) -> None:
    page = scene.tab()
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
    _delete(page, "shop.orders")
    page.get_by_text("Topic shop.orders is deleted.").wait_for()
    wait_until(lambda: not scene.cluster.topics())


def _delete(page: Any, topic: str) -> None:
    page.get_by_text("Change or delete this topic").click()
    page.locator("form[action$=delete] input[name=name]").fill(topic)
    page.get_by_role("button", name="Delete the topic").click()


def a_live_tail_and_its_stop(scene: Scene) -> None:
    scene.cluster.create_topic("orders")
    page = scene.tab()
    page.goto("/c/local/topics/orders/messages?live=true")
    page.get_by_text("Live: waiting").wait_for()
    number = 0

    def shown() -> bool:
        nonlocal number
        number += 1
        scene.cluster.produce("orders", {"value": f"record {number}"})
        return bool(page.locator("tbody tr").count())

    wait_until(shown)
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped.").wait_for()


def a_record_is_looked_at_sent_again_and_downloaded(scene: Scene) -> None:
    record = {"value": '{"price": 7}', "key": "k", "headers": [("trace", b"abc")]}
    scene.cluster.create_topic("orders", "copies")
    scene.cluster.produce("orders", record)
    page = scene.tab()
    page.goto("/c/local/topics/orders/messages")
    page.get_by_role("link", name="0", exact=True).click()
    page.get_by_text("abc").wait_for()
    page.locator("input[name=to]").fill("copies")
    page.get_by_role("button", name="Send it again").click()
    page.get_by_text("Sent again: copies").wait_for()
    page.goto("/c/local/topics/copies/messages?filter=value.price+%3D%3D+7")
    page.get_by_text("1 record looked at, 1 fits").wait_for()
    with page.expect_download() as coming:
        page.get_by_role("link", name="JSON").click()
    (line,) = coming.value.path().read_text().splitlines()
    found = json.loads(line)
    assert (found["key"], found["value"], found["offset"]) == ("k", {"price": 7}, 0)


def a_config_is_changed_and_set_back(scene: Scene) -> None:
    scene.cluster.create_topic("orders")
    page = scene.tab()
    page.goto("/c/local/topics/orders/configs")
    row = page.locator("tr", has=page.get_by_text("retention.ms", exact=True))
    row.get_by_text("change", exact=True).click()
    row.locator("input[name=value]").fill("two hours")
    row.get_by_role("button", name="Set", exact=True).click()
    page.get_by_role("alert").wait_for()
    assert row.locator("input[name=value]").input_value() == "two hours", "what was typed is still there"
    row.locator("input[name=value]").fill("7200000")
    row.get_by_role("button", name="Set", exact=True).click()
    page.get_by_text("retention.ms is 7200000 now.").wait_for()
    _reloaded_until(page, row.get_by_text("set here"))
    row.get_by_text("change", exact=True).click()
    row.get_by_role("button", name="Back to default").click()
    page.get_by_text("retention.ms is back at its default.").wait_for()


def keys_as_they_were(scene: Scene) -> None:
    scene.cluster.create_topic("prices")
    written = [("tea", "3", 1_000), ("milk", "1", 2_000), ("tea", "4", 3_000)]
    day_ms = 1_704_067_200_000  # 2024-01-01T00:00Z
    scene.cluster.produce(
        "prices", *({"key": key, "value": value, "timestamp": day_ms + at} for key, value, at in written)
    )
    page = scene.tab()
    page.goto("/c/local/topics/prices/time-travel")
    page.get_by_label("As it was at").fill("2024-01-01T00:00:02.500Z")
    page.get_by_role("button", name="Show the table of keys").click()
    page.get_by_role("heading", name="2 keys").wait_for()
    assert page.locator("tr", has_text="tea").locator(".value").inner_text() == "3"
    page.get_by_label("As it was at").fill("now")
    page.get_by_role("button", name="Show the table of keys").click()
    page.locator("tr", has_text="tea").locator(".value", has_text="4").wait_for()
    with page.expect_download() as coming:
        page.get_by_role("button", name="Download the snapshot").click()
    assert coming.value.suggested_filename == "prices.tar.zst"


def dead_letters_are_tried_again(scene: Scene) -> None:
    scene.cluster.create_topic("orders", "orders-dead-letters")
    headers = [("moldau.topic", b"orders"), ("moldau.error", b"no price")]
    scene.cluster.produce(
        "orders-dead-letters", *({"value": each, "headers": headers} for each in ("one", "two"))
    )
    page = scene.tab()
    page.goto("/c/local/topics/orders-dead-letters")
    page.get_by_role("link", name="Dead letters").click()
    page.get_by_text("no price").first.wait_for()
    page.get_by_role("checkbox", name="0@0").uncheck()
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("1 records were sent again.").wait_for()
    page.goto("/c/local/topics/orders/messages")
    page.locator("td.value", has_text="two").wait_for()
    assert page.locator("tbody tr").count() == 1


def rows_by_sql(scene: Scene) -> None:
    scene.cluster.create_topic("orders")
    scene.cluster.produce("orders", *values(json.dumps({"price": each}) for each in range(20)))
    page = scene.tab()
    page.goto("/c/local/sql")
    box = page.get_by_role("textbox", name="Statements")
    box.fill("SELECT price FROM nowhere;")
    page.get_by_role("button", name="Run").click()
    page.get_by_text("Correct it and run it again.").wait_for()
    made = "CREATE STREAM s (price INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');"
    box.fill(f"{made} SELECT price FROM s WHERE price > 17;")
    page.get_by_role("button", name="Run").click()
    page.get_by_role("heading", name="2 rows").wait_for()


# --- groups, transactions, schemas, access ----------------------------------------------------------


def a_group_is_looked_at_reset_and_deleted(scene: Scene) -> None:
    scene.cluster.create_topic("orders")
    scene.cluster.produce("orders", *values(f"order {each}" for each in range(10)))
    scene.cluster.commit("billing", "orders", 4)
    page = scene.tab()
    page.goto("/c/local/groups")
    page.get_by_role("link", name="billing").click()
    page.locator(".figure", has_text="Behind").get_by_text("6", exact=True).wait_for()
    page.get_by_role("link", name="not read yet").click()
    page.locator("td.value", has_text="order 4").wait_for()
    assert page.locator("tbody tr").count() == 6
    page.go_back()
    page.get_by_text("Reset or delete this group").click()
    page.locator("select[name=to]").select_option("shift")
    page.locator("input[name=number]").fill("-3")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_text("The plan: nothing has changed yet").wait_for()
    page.get_by_role("cell", name="-3", exact=True).wait_for()
    page.get_by_role("button", name="Reset the offsets").click()
    page.get_by_text("The offsets of billing are reset.").wait_for()
    page.locator(".figure", has_text="Behind").get_by_text("9", exact=True).wait_for()
    page.get_by_text("Reset or delete this group").click()
    page.locator("form[action$=delete] input[name=name]").fill("billing")
    page.get_by_role("button", name="Delete the group").click()
    page.get_by_text("Group billing is deleted.").wait_for()


def a_transaction_that_hangs_is_ended(scene: Scene) -> None:
    scene.cluster.create_topic("bills")
    producer = Producer({"bootstrap.servers": scene.cluster.bootstrap_servers, "transactional.id": "billing"})
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    producer.produce("bills", b"x")
    assert producer.flush(PATIENCE_SECONDS) == 0
    page = scene.tab()
    page.goto("/c/local/transactions")
    page.get_by_text("Ongoing").wait_for()
    page.get_by_role("link", name="billing").click()
    page.get_by_role("link", name="bills").wait_for()
    page.get_by_role("button", name="Abort the transaction").click()
    page.get_by_text("The transaction of billing is aborted.").wait_for()
    try:
        producer.commit_transaction(PATIENCE_SECONDS)
    except KafkaException:
        return
    raise AssertionError("an aborted transaction was committed")


def a_schema_gets_a_second_version(scene: Scene) -> None:
    def order(*more: object) -> str:
        fields = [{"name": "id", "type": "long"}, *more]
        return json.dumps({"type": "record", "name": "Order", "fields": fields})

    scene.start_console(schema_registry=scene.start_registry())
    page = scene.tab()
    page.goto("/c/local/schemas")
    page.get_by_role("link", name="New schema").click()
    page.locator("input[name=subject]").fill("orders-value")
    page.locator("textarea[name=schema]").fill(order())
    page.get_by_role("button", name="Register").click()
    page.get_by_text("Registered under id 1.").wait_for()
    page.get_by_role("link", name="New version").click()
    page.locator("textarea[name=schema]").fill(order({"name": "price", "type": "double"}))
    page.get_by_role("button", name="Register").click()
    page.get_by_text("It is not compatible with what is registered").wait_for()
    page.locator("textarea[name=schema]").fill(order({"name": "town", "type": "string", "default": "Brno"}))
    page.get_by_role("button", name="Register").click()
    page.get_by_text("Registered under id 2.").wait_for()
    page.locator("ins", has_text='"town"').wait_for()


def a_connector_is_paused_and_goes_on(scene: Scene) -> None:
    scene.cluster.create_topic("lines")
    sink = {"connector.class": "FileStreamSink", "topics": "lines", "file": os.devnull}
    scene.start_console(connect=scene.start_worker(name="to-nowhere", **sink))
    page = scene.tab()
    page.goto("/c/local/connect")
    state = page.locator("h2", has_text="to-nowhere").locator(".badge")
    _until_refreshed(page, lambda: state.inner_text() == "RUNNING")
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("to-nowhere: pause was asked for.").wait_for()
    _until_refreshed(page, lambda: state.inner_text() == "PAUSED")
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("to-nowhere: resume was asked for.").wait_for()
    _until_refreshed(page, lambda: state.inner_text() == "RUNNING")


def _reloaded_until(page: Any, wanted: Any) -> Any:
    """What a page shows as soon as brokers know of a change: those of Apache Kafka learn of it afterwards."""

    def shown() -> bool:
        return bool(wanted.count()) or page.reload() is None

    wait_until(shown)
    return wanted


def _until_refreshed(page: Any, seen: Callable[[], bool]) -> None:
    def look() -> bool:
        page.keyboard.press("r")
        return seen()

    wait_until(look)


def a_user_and_a_quota_come_and_go(scene: Scene) -> None:
    page = scene.tab()
    page.goto("/c/local/access")
    page.get_by_text("Add a user, or set a password").click()
    user = page.locator("form[action$=set-user]")
    user.locator("input[name=user]").fill("ann")
    user.locator("input[name=password]").fill("a secret of hers")
    user.get_by_role("button", name="Set the password").click()
    page.get_by_text("ann has a password now.").wait_for()
    _reloaded_until(page, page.get_by_role("button", name="Remove SCRAM")).click()
    page.get_by_text("ann has that password no more.").wait_for()
    page.get_by_text("Set a quota").click()
    quota = page.locator("form[action$=quota]", has=page.get_by_role("button", name="Set", exact=True))
    quota.locator("input[name=client-id]").fill("batch")
    quota.locator("input[name=value]").fill("1048576")
    quota.get_by_role("button", name="Set", exact=True).click()
    page.get_by_text("The quota is set.").wait_for()
    _reloaded_until(page, page.get_by_role("cell", name="1,048,576"))
    page.get_by_role("button", name="Remove", exact=True).click()
    page.get_by_text("The quota is removed.").wait_for()
    page.goto("/c/local/audit")
    page.get_by_role("cell", name="set password").wait_for()
    assert page.get_by_text("a secret of hers").count() == 0


# --- pages as such ----------------------------------------------------------------------------------


def refreshing_never_loses_what_is_typed(scene: Scene) -> None:
    scene.cluster.create_topic("first")
    page = scene.tab()
    page.goto("/c/local/topics")
    page.get_by_role("searchbox").fill("half a wo")
    scene.cluster.create_topic("second")
    page.get_by_role("link", name="second", exact=True).wait_for()
    assert page.get_by_role("searchbox").input_value() == "half a wo"
    page.goto("/c/local/topics/first")
    page.get_by_text("Change or delete this topic").click()
    page.locator("form[action$=delete] input[name=name]").fill("fir")
    page.evaluate("document.activeElement.blur()")
    scene.cluster.produce("first", {"value": "x"})
    page.keyboard.press("r")
    page.locator(".figure", has_text="Records").first.get_by_text("1", exact=True).wait_for()
    assert page.locator("form[action$=delete] input[name=name]").input_value() == "fir"


def a_page_says_that_it_is_old_and_comes_back_by_itself(scene: Scene) -> None:
    scene.cluster.create_topic("first")
    page = scene.tab()
    page.goto("/c/local/topics")
    page.route("**/topics", lambda route: route.fulfill(status=502, body="away"))
    page.keyboard.press("r")
    page.get_by_text("does not answer. It is tried again by itself").wait_for()
    scene.cluster.create_topic("second")
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


def hostile_records_run_nothing(scene: Scene) -> None:
    scene.cluster.create_topic("hostile")
    written = []
    for text in PAYLOADS:
        data = text.encode("utf-8", "surrogatepass")
        name = text.encode("utf-8", "replace").decode()[:100]
        written.append({"value": data, "key": data, "headers": [(name, data)]})
    written += values(json.dumps({text: [text]}) for text in HOSTILE)
    scene.cluster.produce("hostile", *written)
    page = scene.tab()
    for place in range(0, len(written), 200):
        page.goto(f"/c/local/topics/hostile/messages?from={place}&limit=200&partition=0")
        assert page.locator("tbody tr").count() == min(200, len(written) - place)
        _nothing_ran(page)
        assert page.locator("tbody a").evaluate_all("all => all.every(each => each.protocol === 'http:')")
    page.goto("/c/local/topics/hostile/messages?filter=offset+%3E%3D+0")  # through the stream
    page.get_by_text("stopped after 500 records that fit").or_(
        page.get_by_text("everything was looked at")
    ).wait_for()
    assert page.locator("tbody tr").count() > 100
    _nothing_ran(page)


def _nothing_ran(page: Any) -> None:
    assert page.locator(_NOTHING_STRANGE).count() == 0
    assert page.evaluate("window.boomed") is None


def hostile_names_of_groups_run_nothing(scene: Scene) -> None:
    scene.cluster.create_topic("orders")
    names = [text for text in HOSTILE if text.strip() and "\x00" not in text and text.isprintable()][:120]
    for name in names:
        scene.cluster.commit(name, "orders", 0)
    page = scene.tab()
    page.goto("/c/local/groups")
    page.locator("tbody tr").first.wait_for()
    seen = 0
    while True:
        seen += page.locator("tbody tr").count()
        assert page.locator("tbody script, tbody img, tbody iframe, tbody input").count() == 0
        assert page.evaluate("window.boomed") is None
        forward = page.locator(".pager a[rel=next]")
        if not forward.count():
            break
        page.goto(forward.get_attribute("href"))
    assert seen >= len(names), "a registry that ended may still have its group"
    page.locator("tbody a").first.click()
    page.get_by_role("heading", name="Lag over time").wait_for()
    assert page.evaluate("window.boomed") is None


def an_application_is_looked_at_by_keys_alone(scene: Scene) -> None:
    builder = StreamsBuilder()
    builder.stream("lines").group_by(lambda value: value).count("counts").to_stream().to("words")
    scene.cluster.create_topic("lines", "words", "__moldau_pipelines")

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
        scene.cluster.produce(
            "__moldau_pipelines", {"value": json.dumps(status.to_json()), "key": "word-count"}
        )

    tell("running", 10)
    page = scene.tab()
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


def a_phone_sees_every_page(scene: Scene, scheme: str = "light") -> None:
    name = "a-topic-with-a-name-that-is-longer-than-the-screen-of-a-phone-is-wide"
    scene.cluster.create_topic(name, "__moldau_pipelines")
    scene.cluster.produce(name, {"value": "x" * 300, "key": "k" * 80})
    scene.cluster.commit("a-group-with-a-name-that-is-longer-than-the-screen", name, 0)
    status = QueryStatus("query", state="running", lag=({name: 5},), output="topic " + name)
    scene.cluster.produce("__moldau_pipelines", {"value": json.dumps(status.to_json()), "key": "query"})
    page = scene.tab(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    of_topic = ("", "messages", "messages/one", "configs", "produce", "groups", "dead-letters", "time-travel")
    more = ("pipelines", "pipelines/view?name=query", "schemas", "connect", "sql", "transactions", "audit")
    group = "groups/view?group=a-group-with-a-name-that-is-longer-than-the-screen"
    pages = ["", "topics", "groups", group, "brokers", "access", "new-topic", *more]
    for path in (*pages, *(f"topics/{name}/{each}" for each in of_topic)):
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


def a_phone_in_the_dark(scene: Scene) -> None:
    a_phone_sees_every_page(scene, "dark")


WALKS: tuple[Walk, ...] = (
    a_topic_is_made_filled_searched_and_deleted,
    a_live_tail_and_its_stop,
    a_record_is_looked_at_sent_again_and_downloaded,
    a_config_is_changed_and_set_back,
    keys_as_they_were,
    dead_letters_are_tried_again,
    rows_by_sql,
    a_group_is_looked_at_reset_and_deleted,
    a_transaction_that_hangs_is_ended,
    a_schema_gets_a_second_version,
    a_connector_is_paused_and_goes_on,
    a_user_and_a_quota_come_and_go,
    refreshing_never_loses_what_is_typed,
    a_page_says_that_it_is_old_and_comes_back_by_itself,
    hostile_records_run_nothing,
    hostile_names_of_groups_run_nothing,
    an_application_is_looked_at_by_keys_alone,
    a_phone_sees_every_page,
    a_phone_in_the_dark,
)
