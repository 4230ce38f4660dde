"""The fast way to send payloads: over lines, from the thread that makes them and from where they lie.

Whatever goes wrong is left to the patient way: what is on its way is waited for, and ``PayloadSender`` sends
again what was not acknowledged, in its order and with its old sequence numbers. Then the fast way goes on.

Invariant: as that of ``sending``. A batch is acknowledged, kept by the sender for another try, or on its
way over a line, and in one of these only.
"""

from collections import deque
from collections.abc import Iterable

from moldau.client.transport.blocking_connection import Line
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.spark.wire import Wire
from moldau.spark.write.batch_payload import Payload
from moldau.spark.write.sending import MAX_IN_FLIGHT, PayloadSender, Unwritten


class _Way:
    """To one broker."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.unanswered: deque[list[Unwritten]] = deque()


class DirectSender:
    """For one thread; the sender behind it is not to be used by others."""

    def __init__(self, wire: Wire, sender: PayloadSender) -> None:
        self._wire = wire
        self._sender = sender
        self._ways: dict[int, _Way] = {}

    def send(self, topic: str, payloads: Iterable[Payload]) -> None:
        """Returns when they are on their way, not when they are written."""
        waiting = [self._sender.stamp(topic, payload) for payload in payloads]
        if self._sender.to_add(waiting):
            self._wire.ask(self._sender.add(waiting))
        while waiting:
            requests, waiting = self._sender.requests(waiting)
            for node_id, batches in requests.items():
                self._begin(node_id, batches)

    def flush(self) -> None:
        """Returns when everything is written; raises the error that will not pass."""
        for node_id in list(self._ways):
            while (way := self._ways.get(node_id)) is not None and way.unanswered:
                self._take(node_id, way)
        if self._sender.has_failed:
            self._wire.ask(self._sender.flush())

    def close(self) -> None:
        """Lines that wait for nothing are for the next one."""
        for way in self._ways.values():
            self._wire.give_back(way.line)
        self._ways.clear()

    def _begin(self, node_id: int, batches: list[Unwritten]) -> None:
        way = self._ways.get(node_id)
        if way is not None and len(way.unanswered) >= MAX_IN_FLIGHT:
            self._take(node_id, way)
            if self._sender.has_failed:
                # What comes later must not overtake what is sent again.
                self.flush()
        try:
            way = self._way(node_id)
            request, version = self._sender.request(batches, in_place=True)
            way.line.ask(request, max_version=version)
            way.unanswered.append(batches)
        except KafkaError as error:
            self._lose(node_id, error)
            self._sender.keep(batches, error)
            self.flush()

    def _way(self, node_id: int) -> _Way:
        if node_id < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
        if (known := self._ways.get(node_id)) is not None:
            return known
        made = self._ways[node_id] = _Way(self._wire.line_to(node_id))
        return made

    def _take(self, node_id: int, way: _Way) -> None:
        """The answer to the first request that has none."""
        try:
            answer = way.line.answer()
        except KafkaError as error:
            self._lose(node_id, error)
            return
        self._sender.take(answer, way.unanswered.popleft())

    def _lose(self, node_id: int, error: KafkaError) -> None:
        """What was on its way there may or may not be written."""
        if (way := self._ways.pop(node_id, None)) is not None:
            way.line.close()
            for batches in way.unanswered:
                self._sender.keep(batches, error)
