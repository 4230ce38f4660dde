"""Who waits for partitions is called soon after they have moved, and never inside an append.

Invariant: a listener is called once for all that came together, and a few at a time: thousands of them hold
nobody up.
"""

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from moldau.base.names import TopicPartition

if TYPE_CHECKING:
    from moldau.replication.partition import Partition

logger = logging.getLogger("moldau.replication")

#: So many listeners are called in one turn of the loop; thousands of long polls may wait for one partition.
LISTENERS_AT_ONCE = 100


class CommitNotices:
    """Partitions that have moved; their listeners are called soon, once for all that came together.

    Many listeners are called in several turns of the loop, in order; who listens only after a partition has
    moved has seen it moved.
    """

    __slots__ = ("_at_once", "_call_soon", "_called", "_listeners", "_moved", "_place")

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], at_once: int = LISTENERS_AT_ONCE
    ) -> None:
        """``call_soon`` calls a function when whoever is at work has finished, as an event loop does."""
        self._call_soon = call_soon
        self._at_once = at_once
        self._called = False
        #: Whether more than the end of the log has moved.
        self._moved: dict[Partition, bool] = {}
        #: Those of the partition that is at work who were not called yet.
        self._listeners: Iterator[Callable[[], None]] = iter(())
        self._place: TopicPartition | None = None

    def add(self, partition: "Partition", *, committed: bool = True) -> None:
        self._moved[partition] = committed or self._moved.get(partition, False)
        if not self._called:
            self._called = True
            self._call_soon(self.deliver)

    def deliver(self) -> None:
        left = self._at_once
        while True:
            for listener in self._listeners:
                try:
                    listener()
                except Exception:
                    logger.exception("a listener of %s failed", self._place)
                left -= 1
                if not left:
                    self._call_soon(self.deliver)
                    return
            if not self._moved:
                self._called = False
                return
            partition = next(iter(self._moved))
            committed = self._moved.pop(partition)
            self._place = partition.topic_partition
            listeners = tuple(partition.append_listeners.values())
            if committed:
                listeners += tuple(partition.commit_listeners.values())
            self._listeners = iter(listeners)


#: For a partition without an event loop around it: listeners are called on the spot, all of them.
AT_ONCE = CommitNotices(lambda deliver: deliver(), at_once=-1)
