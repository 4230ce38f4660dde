"""``moldau probe`` against a broker, and against none."""

import json
from collections.abc import Callable

from click.testing import Result

from moldau.testing import Broker


def test_a_record_goes_in_and_comes_out(broker: Broker, moldau: Callable[..., Result]) -> None:
    shown = moldau("probe", "--timeout", "60").output
    assert shown.startswith("ok    moldau-probe-0 on broker ")
    lines = moldau("probe", "--json", "--every", "0.1", "--count", "2", "--timeout", "60").output.splitlines()
    assert [json.loads(line)["ok"] for line in lines] == [True, True]
    first = json.loads(lines[0])["partitions"][0]
    assert first["write_ms"] > 0
    assert first["total_ms"] > 0


def test_a_cluster_that_takes_nothing_is_a_failure(broker: Broker, moldau: Callable[..., Result]) -> None:
    broker.create_topic("small", 1, {"max.message.bytes": 10})
    shown = moldau("probe", "-t", "small", "--timeout", "2", code=1).output
    assert "FAIL  small-0" in shown


def test_nobody_is_there(moldau: Callable[..., Result]) -> None:
    moldau("probe", "-b", "127.0.0.1:1", "--timeout", "1", code=1)
