"""Requests that wait: for a partition to move, for work that is under way, or for a moment to come.

A handler that cannot answer yet returns a ``Parked``: what it waits for, how long, and a function that
tries again. Waiting is a value, so a request that waits can be counted, expired and cancelled.

Invariant: a parked request is answered exactly once, or cancelled with its connection.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from moldau.base.tasks import Timer, Timers
from moldau.coordinators.runtime import PromptFuture
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.replication.partition import Partition

if TYPE_CHECKING:
    from moldau.protocol.messages.produce import ProduceRequest

Future: TypeAlias = asyncio.Future[Any]
#: What an attempt returns that is done and has no response, as a Produce with acks=0.
NO_RESPONSE = object()


class Parked:
    """``attempt(expired)`` returns the response, another ``Parked``, or None to go on waiting.

    It is called when one of the partitions moves and when one of the futures is done; what it raises is
    answered like a response. When the time is up it is called with ``expired`` and must answer. Without
    ``seconds`` it waits for as long as it takes: only for what is sure to come.
    """

    __slots__ = (
        "_answer",
        "_timer",
        "_wake",
        "after_disconnect",
        "api_key",
        "attempt",
        "futures",
        "on_append",
        "partitions",
        "seconds",
        "waiting",
    )

    def __init__(
        self,
        partitions: Iterable[Partition],
        seconds: float | None,
        attempt: Callable[[bool], Any | None],
        futures: Iterable[Future] = (),
        *,
        after_disconnect: bool = False,
        on_append: bool = False,
        waiting: "dict[Parked, None] | None" = None,
    ) -> None:
        self.partitions = list(partitions)
        self.seconds = seconds
        self.attempt = attempt
        self.futures = tuple(futures)
        #: Goes on though its connection is gone: its client has no answer to miss and will not ask again.
        self.after_disconnect = after_disconnect
        #: Tried after every append as well, and not only when a partition has committed: for followers.
        self.on_append = on_append
        #: It is in here while it waits: who watches further partitions for it has it ``wait_for`` them.
        self.waiting = waiting
        #: Whose request it is; -1 until it is known.
        self.api_key = -1
        self._timer: Timer | None = None
        self._answer: Callable[[Any], None] | None = None
        self._wake: Callable[..., None] | None = None

    def wait_for(self, partition: Partition) -> None:
        """While it is parked: it is tried again when this partition moves as well."""
        assert self._wake is not None, "it does not wait"
        listeners = partition.append_listeners if self.on_append else partition.commit_listeners
        if self not in listeners:
            self.partitions.append(partition)
            listeners[self] = self._wake


def when_done(future: Future, go_on: Callable[[Future], Any], *, after_disconnect: bool = False) -> Any:
    """What ``go_on`` makes of a future that is done: at once where it is, else as a ``Parked``."""
    if future.done():
        return go_on(future)

    def attempt(expired: bool) -> Any:
        if not future.done():
            return None
        if future.cancelled():
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The broker is stopping.")
        response = go_on(future)
        return NO_RESPONSE if response is None else response

    return Parked((), None, attempt, (future,), after_disconnect=after_disconnect)


def keep_records(request: "ProduceRequest") -> None:
    """Copies the records of a request that is about to be parked; they may be changed in place as before.

    The buffer that they came in serves the next request of any connection.
    """
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = memoryview(bytearray(data.records))


class Purgatory:
    def __init__(self, timers: Timers, limit: int) -> None:
        self._timers = timers
        self._limit = limit
        self._parked: set[Parked] = set()
        #: Requests whose time was up, by API and by whether a follower had asked.
        self.expired: Counter[tuple[int, bool]] = Counter()

    def __iter__(self) -> Iterator[Parked]:
        return iter(tuple(self._parked))

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, parked: Parked, answer: Callable[[Any], None]) -> None:
        """Keeps the request until it can be answered; one too many is answered as if its time were up.

        Requests without a deadline do not count against the limit: each connection may have only so many.
        """
        if parked.seconds is not None and len(self._parked) >= self._limit:
            answer(_outcome(parked, True))
            return
        parked._answer = answer
        self._parked.add(parked)
        parked._wake = wake = partial(self._try, parked, False)
        for partition in parked.partitions:
            listeners = partition.append_listeners if parked.on_append else partition.commit_listeners
            listeners[parked] = wake
        if parked.waiting is not None:
            parked.waiting[parked] = None
        for future in parked.futures:
            if future.__class__ is PromptFuture and future.prompt is None and not future.done():
                future.prompt = wake
            else:
                future.add_done_callback(wake)
        if parked.seconds is not None:
            parked._timer = self._timers.after(parked.seconds, partial(self._try, parked, True))

    def cancel(self, parked: Parked) -> None:
        """Forgets a request whose connection is gone."""
        for future in parked.futures:
            future.add_done_callback(_look_at)
        if parked in self._parked:
            self._remove(parked)

    def expire_all(self) -> None:
        """Answers everything that has a deadline now: the broker is stopping."""
        for parked in tuple(self._parked):
            if parked.seconds is not None:
                self._try(parked, True)

    def _try(self, parked: Parked, expired: bool, done: Future | None = None) -> None:
        if parked not in self._parked:
            return
        response = _outcome(parked, expired)
        if response is None:
            assert not expired, "an expired request must be answered"
            return
        answer = parked._answer
        if expired:
            self.expired[parked.api_key, parked.on_append] += 1
        self._remove(parked)
        assert answer is not None
        answer(response)

    def _remove(self, parked: Parked) -> None:
        self._parked.discard(parked)
        if parked._timer is not None:
            parked._timer.cancel()
        for partition in parked.partitions:
            listeners = partition.append_listeners if parked.on_append else partition.commit_listeners
            listeners.pop(parked, None)
        if parked.waiting is not None:
            parked.waiting.pop(parked, None)
        for future in parked.futures:
            assert parked._wake is not None
            if future.__class__ is PromptFuture and future.prompt is parked._wake:
                future.prompt = None
            else:
                future.remove_done_callback(parked._wake)
        # These lead back to it: without them it is freed at once. The garbage collector would keep everybody
        # waiting for the sake of tens of thousands.
        parked._wake = parked._answer = parked._timer = None


def _outcome(parked: Parked, expired: bool) -> Any:
    try:
        return parked.attempt(expired)
    except Exception as error:
        # The error goes to the client like an answer: it does not concern the caller that woke the request.
        return error


def _look_at(future: Future) -> None:
    """Marks the exception as retrieved, so that asyncio does not warn when no request waits for it."""
    if not future.cancelled():
        future.exception()
