"""The shop: the same events from the same seed, late and bad ones within their bounds."""

import json
from collections import Counter

import pytest

from moldau.pipelines.demo.records import ORDER_SCHEMA, customer_record, json_order, record_of
from moldau.pipelines.demo.shop import (
    CLICKS,
    CUSTOMERS,
    JOIN_SECONDS,
    LATE_MS,
    ORDERS,
    TOO_LATE_MS,
    TOWNS,
    WATERMARK_SECONDS,
    Click,
    Fault,
    Order,
    Shop,
)

BEGAN_MS = 1_800_000_000_000
MINUTES_MS = 10 * 60 * 1000


def events(seed: int = 1, step_ms: int = MINUTES_MS) -> list[Click | Order]:
    shop = Shop(seed, BEGAN_MS)
    ends = range(BEGAN_MS + step_ms, BEGAN_MS + MINUTES_MS + 1, step_ms)
    return [event for end in ends for event in shop.events(end)]


def arrival(event: Click | Order) -> int:
    return event.at_ms if isinstance(event, Click) else event.arrives_ms


@pytest.mark.slow
def test_the_same_seed_gives_the_same_events_however_they_are_asked_for() -> None:
    assert events() == events(step_ms=100)
    assert events() != events(seed=2)


def test_events_come_in_the_order_of_their_arrival_and_before_the_time_that_was_asked_for() -> None:
    times = [arrival(event) for event in events()]
    assert times == sorted(times)
    assert times[0] >= BEGAN_MS
    assert times[-1] < BEGAN_MS + MINUTES_MS


def test_rates_are_about_what_was_asked_for() -> None:
    made = events()
    clicks = sum(isinstance(event, Click) for event in made)
    assert 0.9 < clicks / (40 * 600) < 1.1
    assert 0.25 < (len(made) - clicks) / clicks < 0.35


def test_ids_are_unique() -> None:
    ids = [event.click_id if isinstance(event, Click) else event.order_id for event in events()]
    assert len(set(ids)) == len(ids)


def test_orders_follow_a_click_of_the_same_customer_within_the_range_of_the_join() -> None:
    clicks: dict[tuple[str, str], list[int]] = {}
    for event in events():
        if isinstance(event, Click):
            clicks.setdefault((event.customer_id, event.product), []).append(event.at_ms)
        elif event.fault == Fault.NONE and event.arrives_ms - event.at_ms < TOO_LATE_MS[0]:
            before = [event.at_ms - at for at in clicks[event.customer_id, event.product]]
            assert any(0 <= each <= JOIN_SECONDS * 1000 for each in before)


def test_late_orders_are_in_time_for_the_watermark_and_too_late_ones_are_not() -> None:
    delays = [event.arrives_ms - event.at_ms for event in events() if isinstance(event, Order)]
    late = [delay for delay in delays if delay]
    assert late
    for delay in late:
        assert LATE_MS[0] <= delay <= LATE_MS[1] or TOO_LATE_MS[0] <= delay <= TOO_LATE_MS[1]
    assert LATE_MS[1] < WATERMARK_SECONDS * 1000 < TOO_LATE_MS[0]
    assert {delay >= TOO_LATE_MS[0] for delay in late} == {True, False}


def test_some_orders_are_bad_in_every_way() -> None:
    orders = [event for event in events() if isinstance(event, Order)]
    faults = Counter(order.fault for order in orders)
    assert set(faults) == set(Fault)
    assert 0.01 < 1 - faults[Fault.NONE] / len(orders) < 0.05
    known = {customer.customer_id for customer in Shop(1, BEGAN_MS).customers}
    for order in orders:
        assert (order.quantity <= 0) == (order.fault == Fault.QUANTITY)
        assert (order.customer_id not in known) == (order.fault == Fault.CUSTOMER)


def test_events_as_records() -> None:
    for event in events()[:2000]:
        record = record_of(event, json_order)
        assert record.key == event.customer_id.encode()
        assert record.timestamp_ms == arrival(event)
        if isinstance(event, Order) and event.fault == Fault.UNREADABLE:
            assert record.value.startswith(b"<order>")
            continue
        fields = json.loads(record.value)
        assert fields["at"].endswith("Z")
        if isinstance(event, Click):
            assert record.topic == CLICKS
            assert fields["click_id"] == event.click_id
        else:
            assert record.topic == ORDERS
            assert set(fields) == {field["name"] for field in json.loads(ORDER_SCHEMA)["fields"]}


def test_customers_as_records() -> None:
    customer = Shop(1, BEGAN_MS).customers[0]
    record = customer_record(customer, BEGAN_MS)
    assert (record.topic, record.key) == (CUSTOMERS, b"c0000")
    assert json.loads(record.value)["town"] in TOWNS
