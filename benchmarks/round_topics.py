"""Topics to write to, a fresh one for each round, and none that stays.

What a round has written is gone before the next one begins, so that each finds the disk and the page cache as
the others did. Otherwise the faster of two sides, which writes more while Java warms up, is measured with
less free memory; and where a virtual machine takes its memory from the host page by page, with slower memory.
"""

import time
from types import TracebackType
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

_PARTITIONS = 4
#: A topic is out of sight at once, and its files are gone a second later: ``log.segment.delete.delay.ms``.
_GONE_AFTER_SECONDS = 1.5


class RoundTopics:
    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._admin: Any = None
        self._topic: str | None = None

    def next(self, *, quiet: bool) -> str:
        """The next one; ``quiet`` when nothing that was written before is there any more."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self._servers})
        self._forget()
        if quiet:
            time.sleep(_GONE_AFTER_SECONDS)
        self._topic = f"out-{time.time_ns()}"
        for done in self._admin.create_topics([NewTopic(self._topic, _PARTITIONS)]).values():
            done.result()
        return self._topic

    def _forget(self) -> None:
        if self._topic is None:
            return
        for done in self._admin.delete_topics([self._topic]).values():
            done.result()
        self._topic = None

    def __enter__(self) -> "RoundTopics":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._forget()
