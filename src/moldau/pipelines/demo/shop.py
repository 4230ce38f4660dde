"""A shop in the towns along the Moldau: who buys there, what they click on, and what they order.

    shop = Shop(seed=1, began_ms=clock.now_ms())
    for customer in shop.customers: ...
    for event in shop.events(until_ms=clock.now_ms()): ...

A customer looks at a product (a click), and some of them order it a few seconds later. Some orders arrive
late, a few so late that their window is closed, and some are bad in one of several ways.

Pure: the same seed and the same times give the same events. Tests compare the pipeline's results with these
events, so every event says what is wrong with it.
"""

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

#: Topics of the demo: what comes in.
ORDERS = "orders"
CLICKS = "clicks"
CUSTOMERS = "customers"

#: How late an order may come and still be counted: the pipeline's watermark, and the generator's bounds.
WATERMARK_SECONDS = 10
LATE_MS = (2_000, 7_000)
TOO_LATE_MS = (600_000, 900_000)
#: An order belongs to a click of the same customer on the same product that is not older than this.
JOIN_SECONDS = 30
_DECISION_MS = (1_500, 15_000)

TOWNS = ("Český Krumlov", "České Budějovice", "Týn nad Vltavou", "Praha", "Kralupy", "Mělník")
SEGMENTS = ("new", "regular", "gold")
CAMPAIGNS = ("search", "newsletter", "social", "direct")
_NAMES = ("Jana", "Petr", "Eva", "Jan", "Lucie", "Tomáš", "Anna", "Pavel", "Marie", "Jiří")

#: Product, category and price in hellers (hundredths of a crown), so that sums are exact.
PRODUCTS = (
    ("kayak", "boats", 1_499_000),
    ("canoe", "boats", 1_849_000),
    ("paddle", "gear", 129_900),
    ("life-jacket", "gear", 189_000),
    ("dry-bag", "gear", 49_900),
    ("tent", "camping", 349_000),
    ("stove", "camping", 89_900),
    ("map", "books", 24_900),
)

#: Shares of the orders, one in so many.
_ONE_IN_LATE = 25
_ONE_IN_TOO_LATE = 120
_ONE_IN_BAD = 40
_ORDERS_PER_CLICK = 0.3


class Fault(StrEnum):
    """What is wrong with a record; the pipeline finds the same reasons by itself."""

    NONE = ""
    UNREADABLE = "the value cannot be read"
    QUANTITY = "quantity is not positive"
    CUSTOMER = "customer is not known"


@dataclass(frozen=True, slots=True)
class Customer:
    customer_id: str
    name: str
    town: str
    segment: str


@dataclass(frozen=True, slots=True)
class Click:
    click_id: str
    customer_id: str
    product: str
    campaign: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Order:
    """An order; ``arrives_ms`` is when it is written, ``at_ms`` when the customer made it."""

    order_id: str
    customer_id: str
    product: str
    category: str
    quantity: int
    price: int
    at_ms: int
    arrives_ms: int
    fault: Fault = Fault.NONE


Event = Click | Order


class Shop:
    """Makes events on and on; ``clicks_per_second`` is the mean of a rate that rises and falls."""

    def __init__(
        self, seed: int, began_ms: int, *, clicks_per_second: float = 40.0, customers: int = 500
    ) -> None:
        self._random = random.Random(seed)
        self._began_ms = began_ms
        self._clicks_per_second = clicks_per_second
        self._next_click_ms = float(began_ms)
        self._count = 0
        #: Orders that customers are still thinking about, by the time at which they arrive.
        self._orders: list[tuple[int, int, Order]] = []
        self.customers = tuple(self._customer(number) for number in range(customers))

    def events(self, until_ms: int) -> Iterator[Event]:
        """Everything that happens from the last call to this moment, in the order of its arrival."""
        while True:
            click_ms = self._next_click_ms
            order_ms = self._orders[0][0] if self._orders else math.inf
            if min(click_ms, order_ms) >= until_ms:
                return
            if order_ms <= click_ms:
                yield heapq.heappop(self._orders)[2]
            else:
                yield self._click(int(click_ms))

    def _customer(self, number: int) -> Customer:
        pick = self._random.choice
        return Customer(f"c{number:04}", pick(_NAMES), pick(TOWNS), pick(SEGMENTS))

    def _click(self, at_ms: int) -> Click:
        self._next_click_ms += self._random.expovariate(self._rate(at_ms)) * 1000
        who = self._random.choice(self.customers)
        product = self._random.choice(PRODUCTS)
        click = Click(self._id(), who.customer_id, product[0], self._random.choice(CAMPAIGNS), at_ms)
        if self._random.random() < _ORDERS_PER_CLICK:
            order = self._order(click, product)
            heapq.heappush(self._orders, (order.arrives_ms, self._count, order))
        return click

    def _order(self, click: Click, product: tuple[str, str, int]) -> Order:
        made_ms = click.at_ms + self._random.randint(*_DECISION_MS)
        order = Order(
            order_id=self._id(),
            customer_id=click.customer_id,
            product=product[0],
            category=product[1],
            quantity=self._random.randint(1, 3),
            price=product[2],
            at_ms=made_ms,
            arrives_ms=made_ms,
        )
        return self._with_fault(order)

    def _with_fault(self, order: Order) -> Order:
        """Most orders as they are; some late, some too late, some bad."""
        chance = self._random.random()
        if chance < 1 / _ONE_IN_TOO_LATE:
            return replace(order, at_ms=order.at_ms - self._random.randint(*TOO_LATE_MS))
        chance -= 1 / _ONE_IN_TOO_LATE
        if chance < 1 / _ONE_IN_LATE:
            # Late by arriving later, not by being made earlier: the click still comes before the order.
            return replace(order, arrives_ms=order.at_ms + self._random.randint(*LATE_MS))
        chance -= 1 / _ONE_IN_LATE
        if chance >= 1 / _ONE_IN_BAD:
            return order
        fault = self._random.choice((Fault.UNREADABLE, Fault.QUANTITY, Fault.CUSTOMER))
        if fault == Fault.QUANTITY:
            order = replace(order, quantity=-order.quantity)
        elif fault == Fault.CUSTOMER:
            order = replace(order, customer_id="nobody")
        return replace(order, fault=fault)

    def _rate(self, at_ms: int) -> float:
        """Clicks per second: a wave of half a minute, so that the view has something to show."""
        wave = math.sin((at_ms - self._began_ms) / 30_000 * 2 * math.pi)
        return self._clicks_per_second * (1 + 0.6 * wave)

    def _id(self) -> str:
        """An id that is unique over runs: the time of the start, and a number."""
        self._count += 1
        return f"{self._began_ms:x}-{self._count}"
