"""Quotas at work: what clients use is measured, and whoever uses too much waits.

A throttled answer goes out at once and says for how long; then the connection is not read for that time.
Where a fetch is over its quota it is answered empty; where strict requests for topics and partitions are over
theirs, the rest of them is refused (KIP-599).

Invariant: without any quota nothing of this is in the way of a request. What is remembered of clients is
bounded: the client that was quiet for longest is forgotten first.
"""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from moldau.broker.access.answers import when_answered
from moldau.broker.access.busy_time import BusyTime
from moldau.broker.apis import TABLE
from moldau.broker.connection import Connection
from moldau.broker.context import RequestContext, Services
from moldau.broker.purgatory import NO_RESPONSE
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchRequest, FetchResponse
from moldau.protocol.messages.produce import ProduceRequest
from moldau.security.quotas import (
    CONNECTIONS,
    DEFAULT,
    FETCH,
    MUTATION,
    PRODUCE,
    REQUEST,
    Quota,
    QuotaEntity,
    Quotas,
    Rate,
    TokenBucket,
    quota_of,
)

Handler: TypeAlias = Callable[[Any, RequestContext], Any]

#: Clients whose use is remembered.
_REMEMBERED_MOST = 10_000
#: About what an answer has beside its records.
_ANSWER_BYTES = 70
#: From these versions on clients know what a refused mutation is.
_STRICT_FROM = {ApiKey.CREATE_TOPICS: 6, ApiKey.CREATE_PARTITIONS: 3, ApiKey.DELETE_TOPICS: 5}
#: What of a request is counted, and where its answers are.
_MUTATIONS = {
    ApiKey.CREATE_TOPICS: ("topics", "topics"),
    ApiKey.CREATE_PARTITIONS: ("topics", "results"),
    ApiKey.DELETE_TOPICS: ("topics", "responses"),
}
#: Before a session there is nobody to slow down, and brokers are not slowed down among each other.
_EXEMPT = frozenset(
    {
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.ENVELOPE,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.BROKER_REGISTRATION,
    }
)


class Throttling:
    def __init__(self, services: Services) -> None:
        self._services = services
        settings = services.settings
        self._windows: int = settings["quota.window.num"]
        self._size: int = settings["quota.window.size.seconds"]
        self._burst: int = (
            settings["controller.quota.window.num"] * settings["controller.quota.window.size.seconds"]
        )
        self._rates: OrderedDict[Any, Rate] = OrderedDict()
        self._buckets: OrderedDict[Any, TokenBucket] = OrderedDict()

    @property
    def quotas(self) -> Quotas:
        return self._services.image.security.quotas

    def wrap(self, api_key: ApiKey, handle: Handler) -> Handler:
        """The handler of an API, measured."""
        if api_key in _EXEMPT:
            return handle
        measured = handle
        if api_key is ApiKey.PRODUCE:
            measured = self._produce(handle)
        elif api_key is ApiKey.FETCH:
            measured = self._fetch(handle)
        elif api_key in _MUTATIONS:
            measured = self._mutation(api_key, handle)
        return self._request(measured)

    def rates(self) -> Iterator[tuple[tuple[str, str | None, str | None], float]]:
        """What clients with a quota use now: for each, what shares it and how much a second."""
        now = self._now()
        for shared_by, rate in self._rates.items():
            if len(shared_by) == 3:
                used, seconds = rate.used(now)
                yield shared_by, used / seconds if seconds > 0 else 0.0

    # --- what a client uses ---------------------------------------------------------------------

    def _quota(self, name: str, context: RequestContext) -> Quota | None:
        user = context.connection.identity.principal.name
        return quota_of(self.quotas, name, user, context.client_id)

    def _rate(self, shared_by: Any) -> Rate:
        rate = self._rates.get(shared_by)
        if rate is None:
            rate = self._rates[shared_by] = Rate(self._windows, self._size)
            if len(self._rates) > _REMEMBERED_MOST:
                self._rates.popitem(last=False)
        else:
            self._rates.move_to_end(shared_by)
        return rate

    def _bucket(self, shared_by: Any) -> TokenBucket:
        bucket = self._buckets.get(shared_by)
        if bucket is None:
            bucket = self._buckets[shared_by] = TokenBucket(self._burst)
            if len(self._buckets) > _REMEMBERED_MOST:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(shared_by)
        return bucket

    def _now(self) -> float:
        return self._services.clock.monotonic()

    # --- one wrapper for each kind --------------------------------------------------------------

    def _request(self, handle: Handler) -> Handler:
        """Time that requests take of this broker, in per cent; one answer waits a window at the most."""

        def measured(request: Any, context: RequestContext) -> Any:
            quota = self._quota(REQUEST, context)
            if quota is None:
                return handle(request, context)
            busy = BusyTime(self._now)

            def answered(response: Any) -> Any:
                now, rate = self._now(), self._rate(quota.shared_by)
                rate.record(now, busy.seconds * 100)
                seconds = min(rate.throttle_seconds(now, quota.limit), self._size)
                return throttle(response, seconds, context)

            return when_answered(busy.measured(lambda: handle(request, context)), answered)

        return measured

    def _produce(self, handle: Handler) -> Handler:
        def measured(request: ProduceRequest, context: RequestContext) -> Any:
            quota = self._quota(PRODUCE, context)
            if quota is None:
                return handle(request, context)
            size = _ANSWER_BYTES + sum(
                len(data.records or b"") for topic in request.topic_data for data in topic.partition_data
            )

            def answered(response: Any) -> Any:
                now, rate = self._now(), self._rate(quota.shared_by)
                rate.record(now, size)
                return throttle(response, rate.throttle_seconds(now, quota.limit), context)

            result = handle(request, context)
            # With acks=0 there is no answer: the next request waits all the same.
            return answered(None) if result is None else when_answered(result, answered)

        return measured

    def _fetch(self, handle: Handler) -> Handler:
        def measured(request: FetchRequest, context: RequestContext) -> Any:
            quota = self._quota(FETCH, context)
            if quota is None or max(request.replica_id, request.replica_state.replica_id) >= 0:
                return handle(request, context)
            most = int(quota.limit * (self._windows - 1) * self._size)
            request.max_bytes = min(request.max_bytes, max(most, 1))

            def answered(response: FetchResponse) -> Any:
                size = _ANSWER_BYTES + sum(
                    len(data.records or b"") for topic in response.responses for data in topic.partitions
                )
                now, rate = self._now(), self._rate(quota.shared_by)
                rate.record(now, size)
                seconds = rate.throttle_seconds(now, quota.limit)
                if seconds > 0:
                    rate.record(now, -size)  # it is not sent
                    empty = FetchResponse(0, response.error_code, response.session_id)
                    return throttle(empty, seconds, context)
                return response

            return when_answered(handle(request, context), answered)

        return measured

    def _mutation(self, api_key: ApiKey, handle: Handler) -> Handler:
        fail = TABLE[api_key].fail

        def measured(request: Any, context: RequestContext) -> Any:
            quota = self._quota(MUTATION, context)
            if quota is None:
                return handle(request, context)
            field, answers = _MUTATIONS[api_key]
            if api_key is ApiKey.DELETE_TOPICS and context.api_version < 6:
                field = "topic_names"
            strict = context.api_version >= _STRICT_FROM[api_key]
            bucket, limit, now = self._bucket(quota.shared_by), quota.limit, self._now()
            kept, refused = [], []
            for item in getattr(request, field):
                if strict and not bucket.has_left(now, limit):
                    refused.append(item)
                else:
                    bucket.use(now, limit, self._partitions(api_key, item))
                    kept.append(item)

            def answered(response: Any) -> Any:
                if refused:
                    piece = copy.copy(request)
                    setattr(piece, field, refused)
                    failed = fail(piece, KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED), context)
                    setattr(response, answers, [*getattr(response, answers), *getattr(failed, answers)])
                seconds = bucket.throttle_seconds(self._now(), limit) if refused or not strict else 0
                return throttle(response, seconds, context)

            setattr(request, field, kept)
            if refused and not kept:
                return answered(type(fail(request, KafkaError(ErrorCode.NONE), context))())
            return when_answered(handle(request, context), answered)

        return measured

    def _partitions(self, api_key: ApiKey, item: Any) -> int:
        """How many partitions a topic of a request makes or ends."""
        image = self._services.image
        if api_key is ApiKey.CREATE_TOPICS:
            asked = len(item.assignments) or item.num_partitions
            return asked if asked > 0 else int(self._services.settings.num_partitions)
        name = item if isinstance(item, str) else item.name
        topic = image.topics_by_name.get(name or "")
        if topic is None and not isinstance(item, str) and api_key is ApiKey.DELETE_TOPICS:
            topic = image.topics_by_id.get(item.topic_id)
        known = 0 if topic is None else len(topic.partitions)
        return max(item.count - known, 0) if api_key is ApiKey.CREATE_PARTITIONS else known

    # --- connections ----------------------------------------------------------------------------

    def connected(self, host: str) -> float:
        """Counts a connection from an address; the seconds by which it is too early."""
        quotas = self.quotas
        for name in (host, DEFAULT):
            limit = quotas.get(QuotaEntity(ip=name), {}).get(CONNECTIONS)
            if limit is not None:
                now, rate = self._now(), self._rate((CONNECTIONS, host))
                rate.record(now, 1)
                seconds = rate.throttle_seconds(now, limit)
                if seconds > 0:
                    rate.record(now, -1)  # it is turned away
                return seconds
        return 0.0


def throttle(response: Any, seconds: float, context: RequestContext) -> Any:
    """Says in an answer how long the client waits, and makes it wait."""
    milliseconds = int(seconds * 1000)
    if milliseconds <= 0:
        return response
    if response is not None and response is not NO_RESPONSE and hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = max(response.throttle_time_ms, milliseconds)
    context.services.requests.throttled(context.api_key, milliseconds)
    connection = context.connection
    if isinstance(connection, Connection):
        connection.mute()
        context.services.timers.after(milliseconds / 1000, connection.unmute)
    return response
