"""How the demo looks: a picture of one moment as panels for a terminal, as a plain line, as a summary.

Invariant: pure. A ``Picture`` goes in, something for rich or a line of text comes out; nothing is asked for
here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_BARS = "▁▂▃▄▅▆▇█"
#: Moments in a sparkline.
HISTORY = 30


@dataclass(frozen=True, slots=True)
class TopicFlow:
    """Records of a topic: since the start, and per second in the last moments, the latest last."""

    name: str
    total: int
    rates: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """The mean of the last few moments: batches come in lumps."""
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
class Picture:
    """Everything that is shown of one moment."""

    seconds: float
    services: tuple[tuple[str, str], ...] = ()
    flows: tuple[TopicFlow, ...] = ()
    results: tuple[TopicFlow, ...] = ()
    queries: tuple[QueryLag, ...] = ()
    window: tuple[Revenue, ...] = ()
    bad_count: int = 0
    #: The last bad records: reason, and where each is.
    bad: tuple[tuple[str, str], ...] = ()
    #: When the first row of a window came, in seconds since the start.
    first_result_seconds: float | None = None
    notes: tuple[str, ...] = field(default=())


def sparkline(values: Sequence[float], width: int = HISTORY) -> str:
    """Values as bars, the highest one full; a value that is not zero is never drawn as nothing."""
    shown = [0.0] * (width - len(values)) + list(values)[-width:]
    top = max(shown, default=0.0)
    if top <= 0:
        return _BARS[0] * len(shown)
    return "".join(
        _BARS[0] if value <= 0 else _BARS[max(1, round(value / top * (len(_BARS) - 1)))] for value in shown
    )


def crowns(amount: int) -> str:
    """Hundredths as people write money: 1,234.50."""
    return f"{amount // 100:,}.{amount % 100:02}"


def first_result(picture: Picture) -> str:
    if picture.first_result_seconds is None:
        return f"waiting for the first result ({picture.seconds:.0f} s; Spark is starting)"
    return f"first result after {picture.first_result_seconds:.1f} s"


def plain_line(picture: Picture) -> str:
    """One moment for a log: rates, lag, bad records and the latest window."""
    flows = "  ".join(f"{f.name} {f.rate:.0f}/s ({f.total:,})" for f in (*picture.flows, *picture.results))
    known = [query.lag for query in picture.queries if query.lag is not None]
    parts = [f"{picture.seconds:6.1f} s", flows, f"lag {sum(known):,}" if known else "lag -"]
    parts.append(f"bad {picture.bad_count:,}")
    if picture.window:
        total = sum(row.amount for row in picture.window)
        parts.append(f"window {picture.window[0].window}: {crowns(total)} Kč")
    else:
        parts.append(first_result(picture))
    return "  |  ".join(parts)


def summary(picture: Picture) -> list[str]:
    """What the demo did, when it is over."""
    lines = [
        f"ran {picture.seconds:.1f} s; {first_result(picture)}"
        if picture.first_result_seconds is not None
        else f"ran {picture.seconds:.1f} s; there was no result yet"
    ]
    lines += [f"  {flow.name}: {flow.total:,} records written" for flow in picture.flows]
    lines += [f"  {flow.name}: {flow.total:,} results" for flow in picture.results]
    lines += [f"  {query.name}: lag {'-' if query.lag is None else query.lag}" for query in picture.queries]
    lines.append(f"  bad records: {picture.bad_count:,}")
    return [*lines, *(f"  {note}" for note in picture.notes)]


def render(picture: Picture) -> "RenderableType":
    """The whole view."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    head = Text.assemble(
        ("Moldau ", "bold cyan"),
        f"{picture.seconds:.0f} s   ",
        (first_result(picture), "bold green" if picture.first_result_seconds is not None else "yellow"),
        "   ",
        ("q", "bold reverse"),
        " stops everything",
    )
    where = Text("   ".join(f"{name} {place}" for name, place in picture.services), style="dim")
    columns = Table.grid(expand=True)
    columns.add_column(ratio=3)
    columns.add_column(ratio=2)
    columns.add_row(
        Panel(_flows(picture), title="records", title_align="left"),
        Panel(_queries(picture), title="queries (consumer groups)", title_align="left"),
    )
    columns.add_row(
        Panel(_window(picture), title=_window_title(picture), title_align="left"),
        Panel(_bad(picture), title=f"bad records: {picture.bad_count:,}", title_align="left"),
    )
    notes = [Text(note, style="dim") for note in picture.notes]
    return Group(head, where, columns, *notes)


def _flows(picture: Picture) -> "Table":
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim")
    for flow, arrow in [(f, "→") for f in picture.flows] + [(f, "←") for f in picture.results]:
        table.add_row(f"{arrow} {flow.name}", sparkline(flow.rates), f"{flow.rate:.0f}/s", f"{flow.total:,}")
    return table


def _queries(picture: Picture) -> "Table":
    from rich.table import Table

    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(ratio=1)
    table.add_column(justify="right")
    for query in picture.queries:
        lag = "starting" if query.lag is None else f"lag {query.lag:,}"
        table.add_row(query.name, lag)
    return table


def _window_title(picture: Picture) -> str:
    return f"revenue, window {picture.window[0].window}" if picture.window else "revenue"


def _window(picture: Picture) -> "Table":
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    for justify in ("left", "left", "right", "right"):
        table.add_column(justify="right" if justify == "right" else "left")
    top = max((row.amount for row in picture.window), default=0)
    for row in picture.window:
        bar = "█" * max(1, round(20 * row.amount / top)) if top else ""
        table.add_row(row.town, f"[green]{bar}[/green]", f"{crowns(row.amount)} Kč", f"{row.orders} orders")
    if not picture.window:
        table.add_row("no window yet")
    return table


def _bad(picture: Picture) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(ratio=1)
    table.add_column(justify="right", style="dim")
    for reason, where in picture.bad:
        table.add_row(Text(reason, style="red", overflow="ellipsis", no_wrap=True), where)
    if not picture.bad:
        table.add_row("none yet")
    return table
