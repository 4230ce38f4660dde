"""Moldau inside a test: a real broker, or a cluster of them, in the process, ready in milliseconds.

    from moldau.testing import Broker

    with Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
        ...
        assert [record.value for record in broker.records("orders")] == [b"one"]

Invariant: importing this costs next to nothing, because pytest loads the plugin beside it in every run; a
name brings its module with it when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.base.clock import SteppedClock
    from moldau.testing.broker import Broker
    from moldau.testing.cluster import Cluster
    from moldau.testing.interception import Interception, delay, drop, fail

__all__ = ["Broker", "Cluster", "Interception", "SteppedClock", "delay", "drop", "fail"]

_EXPORTS = {
    "Broker": "moldau.testing.broker",
    "Cluster": "moldau.testing.cluster",
    "Interception": "moldau.testing.interception",
    "SteppedClock": "moldau.base.clock",
    "delay": "moldau.testing.interception",
    "drop": "moldau.testing.interception",
    "fail": "moldau.testing.interception",
}


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
