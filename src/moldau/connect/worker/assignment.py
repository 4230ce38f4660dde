"""Which worker runs a connector.

Every worker gives each connector a number, and the highest has it: workers that come or go move only their
own connectors, and every worker comes to the same result without asking.

Invariant: pure; the same workers and name give the same answer everywhere.
"""

import hashlib
from collections.abc import Iterable


def owner_of(connector: str, workers: Iterable[str]) -> str | None:
    """The worker of a connector, or None where there is no worker."""
    return max(workers, key=lambda worker: _weight(worker, connector), default=None)


def _weight(worker: str, connector: str) -> bytes:
    return hashlib.sha256(f"{worker}\0{connector}".encode()).digest()
