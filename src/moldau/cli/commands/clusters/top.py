"""``moldau top``: what brokers do, live: rates, waits, what is wrong, and the busiest topics.

Invariant: only scrapes ``/metrics``; a broker that does not answer is a row that says so.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.output import print_json_line, size_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from moldau.cli.monitoring.broker_view import BrokerView, Scrape

DEFAULT_ADDRESS = "127.0.0.1:9404"
_TOPICS_SHOWN = 12
_TIMEOUT_SECONDS = 5.0


@click.command()
@click.argument("addresses", nargs=-1, metavar="[HOST:PORT]...")
@click.option("--every", type=click.FloatRange(min=0.2), default=2.0, show_default=True, metavar="SECONDS")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after N times; default: Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON each time.")
def top(addresses: tuple[str, ...], every: float, count: int | None, as_json: bool) -> None:
    """Show rates, waits and what is wrong, from the metrics ports of brokers (--metrics-port).

    \b
    Examples:
      moldau top
      moldau top 127.0.0.1:9404 127.0.0.1:9405 --every 1
      moldau top --count 1 --json | jq .brokers[0].messages_in
    """
    import sys

    wanted = addresses or (DEFAULT_ADDRESS,)
    if as_json or not sys.stdout.isatty():
        for views in _watch(wanted, every, count):
            if as_json:
                print_json_line(described(views))
            else:
                from moldau.cli.output import console

                console().print(rendered(views))
        return
    from contextlib import suppress

    from rich.live import Live

    with suppress(KeyboardInterrupt), Live(screen=True, auto_refresh=False) as live:
        for views in _watch(wanted, every, count):
            live.update(rendered(views), refresh=True)


def _watch(addresses: Sequence[str], every: float, count: int | None) -> "Any":
    """Views of all brokers, each time the seconds are over."""
    import time
    from concurrent.futures import ThreadPoolExecutor

    from moldau.cli.monitoring.broker_view import BrokerView, view

    with ThreadPoolExecutor(min(len(addresses), 16)) as pool:
        before = dict(zip(addresses, pool.map(scrape, addresses), strict=True))
        at = time.monotonic()
        rounds = 0
        while count is None or rounds < count:
            time.sleep(every)
            now = dict(zip(addresses, pool.map(scrape, addresses), strict=True))
            seconds = time.monotonic() - at
            at += seconds
            views = []
            for address in addresses:
                old, new = before[address], now[address]
                if isinstance(new, str):
                    views.append(BrokerView(address, error=new))
                else:
                    views.append(view(address, new if isinstance(old, str) else old, new, seconds))
            before = now
            rounds += 1
            yield views


def scrape(address: str) -> "Scrape | str":
    """What a broker shows; a text that says why not where it does not answer."""
    from urllib.error import URLError
    from urllib.request import urlopen

    from moldau.cli.monitoring.broker_view import parse

    url = address if "://" in address else f"http://{address}"
    url = url if url.rstrip("/").endswith("/metrics") else f"{url.rstrip('/')}/metrics"
    if not url.startswith(("http://", "https://")):
        return "not an http address"
    try:
        with urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
            return parse(answer.read().decode("utf-8", "replace"))
    except (URLError, OSError, ValueError) as error:
        return str(getattr(error, "reason", None) or error)


def described(views: "list[BrokerView]") -> dict[str, Any]:
    from dataclasses import asdict

    return {"brokers": [asdict(each) for each in views]}


def rendered(views: "list[BrokerView]") -> "RenderableType":
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table

    from moldau.cli.monitoring.broker_view import busiest

    brokers = Table(title="Brokers", expand=True)
    for name in (
        "broker",
        "rec/s in",
        "in/s",
        "out/s",
        "req/s",
        "produce p99",
        "fetch p99",
        "idle",
        "lag p99",
    ):
        brokers.add_column(name, justify="left" if name == "broker" else "right")
    for name in ("conn", "leads", "URP", "offline", "memory"):
        brokers.add_column(name, justify="right")
    for each in views:
        if each.error:
            brokers.add_row(escape(each.address), f"[red]{escape(each.error)}[/red]")
            continue
        wrong = [f"[red]{n}[/red]" if n else "0" for n in (each.under_replicated, each.offline)]
        brokers.add_row(
            escape(each.address) + (" *" if each.is_controller else ""),
            f"{each.messages_in:,.0f}",
            size_text(round(each.bytes_in)),
            size_text(round(each.bytes_out)),
            f"{each.requests:,.0f}",
            f"{each.produce_p99_ms:.1f} ms",
            f"{each.fetch_p99_ms:.1f} ms",
            f"{each.idle:.0%}",
            f"{each.lag_p99_ms:.1f} ms",
            str(each.connections),
            f"{each.leaders}/{each.partitions}",
            *wrong,
            size_text(each.memory_bytes),
        )
    topics = Table(title="Busiest topics", expand=True)
    for name in ("topic", "rec/s", "in/s", "out/s"):
        topics.add_column(name, justify="left" if name == "topic" else "right")
    for topic, records, bytes_in, bytes_out in busiest(views, _TOPICS_SHOWN):
        topics.add_row(
            escape(topic), f"{records:,.0f}", size_text(round(bytes_in)), size_text(round(bytes_out))
        )
    return Group(brokers, topics)
