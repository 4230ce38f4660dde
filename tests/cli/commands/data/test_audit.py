"""``moldau audit`` against a broker: one id is dropped, and named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

from moldau.testing import Broker


def test_a_dropped_id_is_reported(
    broker: Broker, moldau: Callable[..., Result], moldau_json: Callable[..., Any], tmp_path: Path
) -> None:
    broker.create_topic("orders", 2)
    for number in range(20):
        broker.produce("orders", b"v", headers=(("event-id", f"e-{number}".encode()),), partition=number % 2)
    ids = tmp_path / "ids"
    ids.write_text("".join(f"e-{number}\n" for number in range(20) if number != 7))
    shown = moldau("audit", "orders", "--processed", str(ids), code=1).output
    assert "1 were not processed:\n  e-7  partition 1, offset 3" in shown
    ids.write_text("".join(f"e-{number}\n" for number in range(20)))
    found = moldau_json("audit", "orders", "--processed", str(ids))
    assert (found["records"], found["missing"], found["unknown"]) == (20, [], [])
    by_key = moldau("audit", "orders", "--processed", str(ids), "--id", "key", code=0).output
    assert "20 records have no id" in by_key


def test_mistakes(broker: Broker, moldau: Callable[..., Result], tmp_path: Path) -> None:
    ids = tmp_path / "ids"
    ids.write_text("a\nb\n")
    assert "none of key" in moldau("audit", "t", "--processed", str(ids), "--id", "x", code=2).output
    assert "raise --most" in moldau("audit", "t", "--processed", str(ids), "--most", "1", code=1).output
