"""Which record a task takes next, where it has several topics.

Invariant: each topic in its own order; between topics, the one whose first record has the smallest timestamp,
and among equals the one that Kafka Streams would take.
"""

from collections import deque

from moldau.streams.engine.java import PriorityQueue
from moldau.streams.engine.records import Input


class RecordQueues:
    """Records that wait to be taken, with the times that the program gives them."""

    __slots__ = ("_by_time", "_queues")

    def __init__(self) -> None:
        self._queues: dict[tuple[str, int], deque[tuple[Input, int]]] = {}
        self._by_time: PriorityQueue[tuple[str, int]] = PriorityQueue()

    def __bool__(self) -> bool:
        return len(self._by_time) > 0

    def add(self, record: Input, timestamp: int) -> None:
        place = (record.topic, record.partition)
        queue = self._queues.setdefault(place, deque())
        queue.append((record, timestamp))
        if len(queue) == 1:
            self._by_time.add(timestamp, place)

    def take(self) -> tuple[Input, int]:
        """The next record and its time."""
        _, place = self._by_time.poll()
        queue = self._queues[place]
        taken = queue.popleft()
        if queue:
            self._by_time.add(queue[0][1], place)
        return taken
