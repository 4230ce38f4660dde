"""Shows a ``DemoSnapshot`` as panels for a terminal, as a plain line, or as a summary. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_BARS = "▁▂▃▄▅▆▇█"
#: How many values a sparkline has.
HISTORY = 30


@dataclass(frozen=True, slots=True)
class TopicFlow:
    """Records of a topic: since the start, and their recent rates per second, the latest last."""

    name: str
    total: int
    rates: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """The mean of the last few rates, because records arrive in batches."""
        latest = self.rates[-5:]
        return sum(latest) / len(latest) if latest else 0.0


@dataclass(frozen=True, slots=True)
class QueryLag:
    """A query of the pipeline as a consumer group: None until it has committed something."""

    name: str
    lag: int | None


@dataclass(frozen=True, slots=True)
class Revenue:
    """One row of a window: what a town's orders came to, in hundredths of a crown."""

    window: str
    town: str
    orders: int
    amount: int


@dataclass(frozen=True, slots=True)
class DemoSnapshot:
    """Everything that the view shows at one moment."""

    seconds: float
    services: tuple[tuple[str, str], ...] = ()
    flows: tuple[TopicFlow, ...] = ()
    results: tuple[TopicFlow, ...] = ()
    queries: tuple[QueryLag, ...] = ()
    window: tuple[Revenue, ...] = ()
    bad_count: int = 0
    #: The last bad records: reason, and partition and offset.
    bad: tuple[tuple[str, str], ...] = ()
    #: When the first row of a window came, in seconds since the start.
    first_result_seconds: float | None = None
    notes: tuple[str, ...] = field(default=())


def sparkline(values: Sequence[float], width: int = HISTORY) -> str:
    """Values as bars; the highest one is full, and one above zero is always visible."""
    shown = [0.0] * (width - len(values)) + list(values)[-width:]
    top = max(shown, default=0.0)
    if top <= 0:
        return _BARS[0] * len(shown)
    return "".join(
        _BARS[0] if value <= 0 else _BARS[max(1, round(value / top * (len(_BARS) - 1)))] for value in shown
    )


def crowns(amount: int) -> str:
    """An amount in hundredths as crowns: 1,234.50."""
    return f"{amount // 100:,}.{amount % 100:02}"


def first_result(snapshot: DemoSnapshot) -> str:
    if snapshot.first_result_seconds is None:
        return f"waiting for the first result ({snapshot.seconds:.0f} s; Spark is starting)"
    return f"first result after {snapshot.first_result_seconds:.1f} s"


def plain_line(snapshot: DemoSnapshot) -> str:
    """A snapshot in one line: rates, lag, bad records and the latest window."""
    flows = "  ".join(f"{f.name} {f.rate:.0f}/s ({f.total:,})" for f in (*snapshot.flows, *snapshot.results))
    known = [query.lag for query in snapshot.queries if query.lag is not None]
    parts = [f"{snapshot.seconds:6.1f} s", flows, f"lag {sum(known):,}" if known else "lag -"]
    parts.append(f"bad {snapshot.bad_count:,}")
    if snapshot.window:
        total = sum(row.amount for row in snapshot.window)
        parts.append(f"window {snapshot.window[0].window}: {crowns(total)} Kč")
    else:
        parts.append(first_result(snapshot))
    return "  |  ".join(parts)


def summary(snapshot: DemoSnapshot) -> list[str]:
    """What the demo did, when it is over."""
    lines = [
        f"ran {snapshot.seconds:.1f} s; {first_result(snapshot)}"
        if snapshot.first_result_seconds is not None
        else f"ran {snapshot.seconds:.1f} s; there was no result yet"
    ]
    lines += [f"  {flow.name}: {flow.total:,} records written" for flow in snapshot.flows]
    lines += [f"  {flow.name}: {flow.total:,} results" for flow in snapshot.results]
    lines += [f"  {query.name}: lag {'-' if query.lag is None else query.lag}" for query in snapshot.queries]
    lines.append(f"  bad records: {snapshot.bad_count:,}")
    return [*lines, *(f"  {note}" for note in snapshot.notes)]


def render(snapshot: DemoSnapshot) -> "RenderableType":
    """The whole view."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    head = Text.assemble(
        ("Moldau ", "bold cyan"),
        f"{snapshot.seconds:.0f} s   ",
        (first_result(snapshot), "bold green" if snapshot.first_result_seconds is not None else "yellow"),
        "   ",
        ("q", "bold reverse"),
        " stops everything",
    )
    where = Text("   ".join(f"{name} {address}" for name, address in snapshot.services), style="dim")
    columns = Table.grid(expand=True)
    columns.add_column(ratio=3)
    columns.add_column(ratio=2)
    columns.add_row(
        Panel(_flows(snapshot), title="records", title_align="left"),
        Panel(_queries(snapshot), title="queries (consumer groups)", title_align="left"),
    )
    columns.add_row(
        Panel(_window(snapshot), title=_window_title(snapshot), title_align="left"),
        Panel(_bad(snapshot), title=f"bad records: {snapshot.bad_count:,}", title_align="left"),
    )
    notes = [Text(note, style="dim") for note in snapshot.notes]
    return Group(head, where, columns, *notes)


def _flows(snapshot: DemoSnapshot) -> "Table":
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim")
    for flow, arrow in [(f, "→") for f in snapshot.flows] + [(f, "←") for f in snapshot.results]:
        table.add_row(f"{arrow} {flow.name}", sparkline(flow.rates), f"{flow.rate:.0f}/s", f"{flow.total:,}")
    return table


def _queries(snapshot: DemoSnapshot) -> "Table":
    from rich.table import Table

    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(ratio=1)
    table.add_column(justify="right")
    for query in snapshot.queries:
        lag = "starting" if query.lag is None else f"lag {query.lag:,}"
        table.add_row(query.name, lag)
    return table


def _window_title(snapshot: DemoSnapshot) -> str:
    return f"revenue, window {snapshot.window[0].window}" if snapshot.window else "revenue"


def _window(snapshot: DemoSnapshot) -> "Table":
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    for is_number in (False, False, True, True):
        table.add_column(justify="right" if is_number else "left")
    top = max((row.amount for row in snapshot.window), default=0)
    for row in snapshot.window:
        bar = "█" * max(1, round(20 * row.amount / top)) if top else ""
        table.add_row(row.town, f"[green]{bar}[/green]", f"{crowns(row.amount)} Kč", f"{row.orders} orders")
    if not snapshot.window:
        table.add_row("no window yet")
    return table


def _bad(snapshot: DemoSnapshot) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(ratio=1)
    table.add_column(justify="right", style="dim")
    for reason, where in snapshot.bad:
        table.add_row(Text(reason, style="red", overflow="ellipsis", no_wrap=True), where)
    if not snapshot.bad:
        table.add_row("none yet")
    return table
