"""How the demo looks: snapshots to text."""

from rich.console import Console

from moldau.cli.reports.live_view import (
    DemoSnapshot,
    QueryLag,
    Revenue,
    TopicFlow,
    crowns,
    plain_line,
    render,
    sparkline,
    summary,
)

EMPTY = DemoSnapshot(
    3.2, flows=(TopicFlow("orders", 0), TopicFlow("clicks", 0)), queries=(QueryLag("q", None),)
)
FULL = DemoSnapshot(
    seconds=61.5,
    services=(("broker", "127.0.0.1:9092"), ("registry", "http://127.0.0.1:8081")),
    flows=(TopicFlow("orders", 1234, (0.0, 10.0, 20.0)), TopicFlow("clicks", 4321, (40.0,))),
    results=(TopicFlow("revenue", 77, (5.0,)),),
    queries=(QueryLag("demo-revenue", 12), QueryLag("demo-orders", None)),
    window=(
        Revenue("2026-11-16 05:30:10", "Praha", 7, 1_234_550),
        Revenue("2026-11-16 05:30:10", "Mělník", 1, 24_900),
    ),
    bad_count=2,
    bad=(("quantity is not positive", "0@17"), ("[red]the value cannot be read", "1@4")),
    first_result_seconds=14.23,
    notes=("the producer has stopped",),
)


def text(snapshot: DemoSnapshot, width: int = 120) -> str:
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(render(snapshot))
    return captured.get()


def test_sparklines() -> None:
    assert sparkline([], 4) == "▁▁▁▁"
    assert sparkline([0, 0], 2) == "▁▁"
    assert sparkline([0, 1, 50, 100], 4) == "▁▂▅█"  # little is not nothing
    assert sparkline([1, 2, 3], 2) == "▆█"
    assert len(sparkline(range(100))) == 30


def test_money() -> None:
    assert crowns(1_234_550) == "12,345.50"
    assert crowns(5) == "0.05"


def test_a_picture_before_the_first_result() -> None:
    shown = text(EMPTY)
    assert "waiting for the first result (3 s; Spark is starting)" in shown
    assert "starting" in shown
    assert "no window yet" in shown
    assert "none yet" in shown
    assert "q stops everything" in shown


def test_a_picture_with_everything() -> None:
    shown = text(FULL)
    for piece in (
        "first result after 14.2 s",
        "broker 127.0.0.1:9092",
        "→ orders",
        "1,234",
        "← revenue",
        "demo-revenue",
        "lag 12",
        "revenue, window 2026-11-16 05:30:10",
        "12,345.50 Kč",
        "bad records: 2",
        "quantity is not positive",
        "[red]the value",  # what a record says is text, never a style
        "the producer has stopped",
    ):
        assert piece in shown
    assert all(len(line) <= 80 for line in text(FULL, 80).splitlines())


def test_plain_lines() -> None:
    assert plain_line(EMPTY) == (
        "   3.2 s  |  orders 0/s (0)  clicks 0/s (0)  |  lag -  |  bad 0  |  "
        "waiting for the first result (3 s; Spark is starting)"
    )
    assert plain_line(FULL) == (
        "  61.5 s  |  orders 10/s (1,234)  clicks 40/s (4,321)  revenue 5/s (77)  |  lag 12  |  bad 2  |  "
        "window 2026-11-16 05:30:10: 12,594.50 Kč"
    )


def test_the_summary() -> None:
    assert summary(FULL) == [
        "ran 61.5 s; first result after 14.2 s",
        "  orders: 1,234 records written",
        "  clicks: 4,321 records written",
        "  revenue: 77 results",
        "  demo-revenue: lag 12",
        "  demo-orders: lag -",
        "  bad records: 2",
        "  the producer has stopped",
    ]
    assert summary(EMPTY)[0] == "ran 3.2 s; there was no result yet"
