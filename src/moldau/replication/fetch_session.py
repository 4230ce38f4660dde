"""A follower's side of a fetch session: only what has changed since the last request is sent again.

Invariant: pure. After ``reset`` the next request names every partition and begins a new session.
"""

from collections.abc import Iterable
from typing import NamedTuple

from moldau.base.names import Uuid
from moldau.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

_NO_SESSION, _INITIAL_EPOCH, _LAST_EPOCH = 0, 0, 0x7FFFFFFF

#: A partition by the id of its topic and its index.
Key = tuple[Uuid, int]


class Position(NamedTuple):
    """What a follower says of one partition: what it wants next, and what it has."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    high_watermark: int
    max_bytes: int


class FetchSession:
    def __init__(self) -> None:
        self._session_id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        #: What the leader believes.
        self._sent: dict[Key, Position] = {}

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def epoch(self) -> int:
        return self._epoch

    def reset(self) -> None:
        """Whatever was sent may not have arrived: the next request begins anew."""
        self._epoch = _INITIAL_EPOCH
        self._sent = {}  # who handles an answer may still look at the other one

    @property
    def sent(self) -> dict[Key, Position]:
        """What the leader believes; it is not to be changed."""
        return self._sent

    def next_request(
        self, positions: dict[Key, Position], among: Iterable[Key] | None = None
    ) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """The partitions that a request has to name, and those that the leader shall forget.

        Who knows it says ``among`` which of them something may have changed since the last request.
        """
        sent = self._sent
        if among is None or not sent:
            among = (*sent, *(key for key in positions if key not in sent))
        forgotten = []
        changed = {}
        for key in among:
            position = positions.get(key)
            if position is None:
                if sent.pop(key, None) is not None:
                    forgotten.append(key)
            elif sent.get(key) != position:
                changed[key] = sent[key] = position
        return _topics(changed), _forgotten(forgotten)

    def answered(self, session_id: int) -> None:
        """The leader has answered; without a session it wants to hear of everything each time."""
        self._session_id = session_id
        if session_id == _NO_SESSION:
            self.reset()
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1


def _topics(positions: dict[Key, Position]) -> list[FetchTopic]:
    topics: dict[Uuid, FetchTopic] = {}
    for (topic_id, index), position in positions.items():
        topic = topics.setdefault(topic_id, FetchTopic(topic="", topic_id=topic_id, partitions=[]))
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=position.leader_epoch,
                fetch_offset=position.fetch_offset,
                last_fetched_epoch=position.last_fetched_epoch,
                log_start_offset=position.log_start_offset,
                partition_max_bytes=position.max_bytes,
                high_watermark=position.high_watermark,
            )
        )
    return list(topics.values())


def _forgotten(keys: Iterable[Key]) -> list[ForgottenTopic]:
    topics: dict[Uuid, ForgottenTopic] = {}
    for topic_id, index in keys:
        topic = topics.setdefault(topic_id, ForgottenTopic(topic="", topic_id=topic_id, partitions=[]))
        topic.partitions.append(index)
    return list(topics.values())
