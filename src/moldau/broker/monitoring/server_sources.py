"""Metrics of requests, connections, waiting requests, fetch sessions, quotas and certificates.

Invariant: nothing is kept here; a client's quota is shown for as long as the throttling remembers the client.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable

from moldau.broker.access.throttling import Throttling
from moldau.broker.context import Services
from moldau.broker.monitoring.requests import CONSUMER, FOLLOWER, ApiRequests, error_name, request_name
from moldau.broker.purgatory import Parked
from moldau.broker.server import Server
from moldau.metrics import broker_metrics as names
from moldau.metrics.readings import Keys, Reading, Sources, Value, one
from moldau.protocol.api_keys import ApiKey
from moldau.security.quotas import FETCH, PRODUCE, REQUEST

#: There is one event loop, and it is the first.
_PROCESSOR = "0"
#: Kafka's names for what waits; what is not here has the name of its API.
_WAITING = {
    ApiKey.JOIN_GROUP: "Rebalance",
    ApiKey.SYNC_GROUP: "Rebalance",
    ApiKey.ELECT_LEADERS: "ElectLeader",
}
_ALWAYS_SHOWN = ("Produce", "Fetch", "DeleteRecords", "Rebalance", "Heartbeat", "ElectLeader")
_QUOTA_TYPES = {PRODUCE: "Produce", FETCH: "Fetch", REQUEST: "Request"}


class ServerSources:
    def __init__(self, services: Services, server: Server, throttling: Throttling) -> None:
        self._services = services
        self._server = server
        self._throttling = throttling

    def register(self, sources: Sources) -> None:
        sources.add("kafka.network", "RequestMetrics", self.requests)
        sources.add("kafka.network", "RequestChannel", self.queues)
        sources.add("kafka.server", "BrokerTopicMetrics", self.failures)
        sources.add("kafka.server", "DelayedOperationPurgatory", self.purgatory)
        sources.add("kafka.server", "DelayedFetchMetrics", self.expired_fetches)
        sources.add("kafka.server", "DelayedProduceMetrics", self.expired_produces)
        sources.add("kafka.server", "FetchSessionCache", self.fetch_sessions)
        sources.add("kafka.server", "socket-server-metrics", self.connections)
        sources.add("moldau.security", "Certificate", self.certificates)
        for type_ in _QUOTA_TYPES.values():
            sources.add("kafka.server", type_, lambda type_=type_: self.quotas(type_))  # type: ignore[misc]

    # --- requests -------------------------------------------------------------------------------

    def requests(self) -> Iterable[Reading]:
        requests = self._services.requests
        apis = list(requests.apis.values())
        for api in apis:
            for tally in api.versions.values():
                tally.time_next()
        counts: list[tuple[Keys, Value]] = []
        errors: list[tuple[Keys, Value]] = []
        for api in apis:
            counts += (((api.name, str(tally.version)), tally.count) for tally in api.versions.values())
            errors += self._errors(api)
            if api.name == "Fetch":
                counts += self._fetches(api)
        yield Reading(names.REQUESTS, counts)
        yield Reading(names.ERRORS, errors)
        for field, metric in names.TIMES.items():
            yield Reading(
                metric,
                [((name,), getattr(times, field)) for api in apis for name, times in api.shown_times()],
            )

    def _fetches(self, api: ApiRequests) -> Iterable[tuple[Keys, Value]]:
        of_followers = self._services.requests.follower_fetches
        for tally in api.versions.values():
            version, followers = str(tally.version), of_followers.get(tally.version, 0)
            yield (CONSUMER, version), max(tally.count - followers, 0)
            if followers:
                yield (FOLLOWER, version), followers

    @staticmethod
    def _errors(api: ApiRequests) -> Iterable[tuple[Keys, Value]]:
        if api.count:
            yield (api.name, "NONE"), max(api.count - sum(api.errors.values()), 0)
        for code, count in sorted(api.errors.items()):
            yield (api.name, error_name(code)), count

    def queues(self) -> Iterable[Reading]:
        yield one(names.REQUEST_QUEUE, len(self._server.intake.rotation))
        waiting = sum(not each.quiet for each in self._server.connections if not each.closing)
        yield one(names.RESPONSE_QUEUE, waiting)

    def failures(self) -> Iterable[Reading]:
        failures = self._services.topic_failures
        known = self._services.image.topics_by_name
        failures.forget({topic for _, topic in failures.by_topic if topic not in known})
        for name, (of_all, of_topic) in names.FAILURES.items():
            yield one(of_all, failures.all[name])
            found = [
                ((topic,), count) for (meter, topic), count in failures.by_topic.items() if meter == name
            ]
            yield Reading(of_topic, found)

    # --- what waits -----------------------------------------------------------------------------

    def purgatory(self) -> Iterable[Reading]:
        counts = Counter(_waits_for(each) for each in self._services.purgatory)
        shown = [((name,), counts[name]) for name in dict.fromkeys((*_ALWAYS_SHOWN, *counts))]
        for metric in names.PURGATORY.values():
            yield Reading(metric, shown)

    def expired_fetches(self) -> Iterable[Reading]:
        expired = self._services.purgatory.expired
        shown = [
            ((name,), expired[ApiKey.FETCH, who]) for name, who in (("consumer", False), ("follower", True))
        ]
        yield Reading(names.EXPIRED_FETCHES, shown)

    def expired_produces(self) -> Iterable[Reading]:
        yield one(names.EXPIRED_PRODUCES, self._services.purgatory.expired[ApiKey.PRODUCE, False])

    def fetch_sessions(self) -> Iterable[Reading]:
        sessions = self._services.fetch_sessions
        yield one(names.FETCH_SESSIONS, len(sessions))
        yield one(names.SESSION_PARTITIONS, sessions.partition_count)
        yield one(names.SESSION_EVICTIONS, sessions.evictions)

    # --- connections ----------------------------------------------------------------------------

    def connections(self) -> Iterable[Reading]:
        totals = {name: each.copy() for name, each in self._server.totals.items()}
        software: Counter[Keys] = Counter()
        for each in self._server.connections:
            total = totals[each.listener_name]
            total.open += 1
            total.bytes_in += each.bytes_in
            total.bytes_out += each.bytes_out
            software[(*each.software, each.listener_name, _PROCESSOR)] += 1
        logins = self._services.logins
        shown: dict[str, list[tuple[Keys, Value]]] = defaultdict(list)
        for listener, total in totals.items():
            for name, value in {
                "connection-count": total.open,
                "connection-creation-total": total.opened,
                "connection-close-total": total.opened - total.open,
                "incoming-byte-total": total.bytes_in,
                "outgoing-byte-total": total.bytes_out,
                "successful-authentication-total": logins[listener, True],
                "failed-authentication-total": logins[listener, False],
            }.items():
                shown[name].append(((listener, _PROCESSOR), value))
        for name, values in shown.items():
            yield Reading(names.CONNECTIONS[name], values)
        yield Reading(names.BY_SOFTWARE, list(software.items()))

    def certificates(self) -> Iterable[Reading]:
        now_ms = self._services.clock.now_ms()
        shown = [
            ((name,), (expiry - now_ms) / 1000)
            for name, entrance in self._server.entrances.items()
            if (expiry := entrance.certificate_expires_at_ms) is not None
        ]
        yield Reading(names.CERTIFICATE, shown)

    def quotas(self, type_: str) -> Iterable[Reading]:
        found: dict[tuple[str, ...], list[tuple[Keys, Value]]] = defaultdict(list)
        for (name, user, client), rate in self._throttling.rates():
            if _QUOTA_TYPES.get(name) == type_:
                parts = {"user": user, "client-id": client}
                keys = tuple(key for key, value in parts.items() if value is not None)
                found[keys].append((tuple(value for value in parts.values() if value is not None), rate))
        for keys, values in found.items():
            if (type_, keys) in names.QUOTAS:
                yield Reading(names.QUOTAS[type_, keys], values)


def _waits_for(parked: Parked) -> str:
    if parked.api_key < 0:
        return "Other"
    api_key = ApiKey(parked.api_key)
    return _WAITING.get(api_key) or request_name(api_key)
