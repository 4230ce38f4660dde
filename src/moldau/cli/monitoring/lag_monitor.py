"""Looks at all groups of a cluster from outside, again and again, and tells whether each keeps up.

Nothing is asked of the consumers: a group whose consumer is dead is seen as well as any other. What was
seen is kept in a file of JSON lines, which is rolled once; a monitor that starts again goes on where it
was.

Invariant: changes nothing in the cluster. A group that cannot be looked at is passed over, and said so once.
While the cluster is away nothing is said of groups but what the last look has shown.
"""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from moldau.base.clock import Clock, stopwatch
from moldau.base.http_server import Request, Response
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.metrics.lag.evaluation import MEANINGS, GroupStatus, Status
from moldau.metrics.lag.history import LagHistory, Look, Looks, from_lines, to_line
from moldau.metrics.lag_metrics import GROUP_LAG, GROUP_STATUS, PARTITION_LAG, PARTITION_STATUS
from moldau.metrics.prometheus import PROMETHEUS_TYPE, exposition
from moldau.metrics.readings import Keys, Reading, Value
from moldau.protocol.errors import KafkaError
from moldau.reports.group_lag import GroupSnapshot, take_group_snapshot

_FILE_BYTES_MOST = 16 * 1024 * 1024


def looks_of(snapshot: GroupSnapshot) -> Looks:
    """What a snapshot says of each partition."""
    return {
        place: Look(state.committed, state.end, snapshot.group.owner(place) is not None)
        for place, state in snapshot.partitions.items()
    }


def read_history(path: Path) -> LagHistory:
    """What the file and the one before it tell; nothing where there is none."""
    lines: list[str] = []
    for each in (_former(path), path):
        if each.exists():
            lines += each.read_text("utf-8", "replace").splitlines()
    return from_lines(lines)


def _former(path: Path) -> Path:
    return path.with_name(path.name + ".1")


class LagMonitor:
    def __init__(
        self, cluster: Cluster, clock: Clock, history_file: Path | None, say: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._file = history_file
        self._say = say
        self._unreadable: set[str] = set()
        #: What went wrong with the last look, or with its lines in the file; "" where nothing did.
        self._trouble = ""
        self._looked_at_ms: int | None = None
        self.history = LagHistory() if history_file is None else read_history(history_file)

    async def try_to_look(self) -> None:
        """One look; what goes wrong is said once: a monitor outlives the trouble that it is there to see."""
        trouble = ""
        try:
            await self.look()
        except KafkaError as error:
            trouble = f"the cluster cannot be looked at: {error}"
        except OSError as error:
            trouble = f"what was seen cannot be written to {self._file}: {error.strerror}"
        if trouble != self._trouble:
            self._say(trouble or "the cluster is looked at again")
        self._trouble = trouble

    async def look(self) -> None:
        """One look at every group."""
        lines = []
        listed = await Groups(self._cluster).list()
        self._looked_at_ms = self._clock.now_ms()
        for listing in listed:
            if not listing.is_consumer_group:
                continue
            now_ms = self._clock.now_ms()
            try:
                looks = looks_of(await take_group_snapshot(self._cluster, listing.group_id, now_ms))
            except KafkaError as error:
                if listing.group_id not in self._unreadable:
                    self._say(f"group {listing.group_id} cannot be looked at: {error}")
                self._unreadable.add(listing.group_id)
                continue
            self._unreadable.discard(listing.group_id)
            self.history.take(listing.group_id, looks, now_ms)
            lines.append(to_line(listing.group_id, looks, now_ms))
        self.history.end_round()
        self._keep(lines)

    def _keep(self, lines: list[str]) -> None:
        if self._file is None or not lines:
            return
        if self._file.exists() and self._file.stat().st_size > _FILE_BYTES_MOST:
            os.replace(self._file, _former(self._file))
        with self._file.open("a", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in lines)

    def status(self, group: str) -> GroupStatus:
        now_ms = self._clock.now_ms() if self._looked_at_ms is None else self._looked_at_ms
        return self.history.status(group, now_ms)

    # --- over HTTP: Burrow's paths, and Prometheus' -----------------------------------------------

    async def answer(self, request: Request) -> Response:
        parts = [unquote(part) for part in request.path.split("/") if part]
        if parts == ["metrics"]:
            text = "".join(exposition(self.readings(), stopwatch()))
            return Response(text.encode(), PROMETHEUS_TYPE)
        if parts == ["healthz"]:
            return Response(b"GOOD\n")
        if parts[:2] == ["v3", "kafka"] and parts[3:4] == ["consumer"]:
            if len(parts) == 4:
                return _json({"error": False, "consumers": list(self.history)})
            if len(parts) == 6 and parts[5] in ("status", "lag") and parts[4] in list(self.history):
                return _json({"error": False, "status": self.described(parts[4], every=parts[5] == "lag")})
        return _json({"error": True, "message": "not found"}, 404)

    def described(self, group: str, *, every: bool = True) -> dict[str, Any]:
        """A group as Burrow describes it; its partitions, or only those that are not well."""
        found = self.status(group)
        partitions = [
            {
                "topic": place.topic,
                "partition": place.partition,
                "status": each.status.name,
                "current_lag": each.lag,
            }
            | {"complete": each.complete, "meaning": MEANINGS[each.status]}
            for place, each in sorted(found.partitions.items())
            if every or each.status is not Status.OK
        ]
        return {
            "group": group,
            "status": found.status.name,
            "complete": found.complete,
            "totallag": found.lag,
            "partition_count": len(found.partitions),
            "maxlag": None if found.worst is None else str(found.worst),
            "partitions": partitions,
        }

    def readings(self) -> Iterable[Reading]:
        groups = {group: self.status(group) for group in self.history}
        yield Reading(GROUP_STATUS, [((group,), int(each.status)) for group, each in groups.items()])
        yield Reading(GROUP_LAG, [((group,), each.lag) for group, each in groups.items()])
        lags: list[tuple[Keys, Value]] = []
        states: list[tuple[Keys, Value]] = []
        for group, each in groups.items():
            for (topic, number), partition in each.partitions.items():
                lags.append(((group, topic, str(number)), partition.lag))
                states.append(((group, topic, str(number)), int(partition.status)))
        yield Reading(PARTITION_LAG, lags)
        yield Reading(PARTITION_STATUS, states)


def _json(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value).encode(), "application/json; charset=utf-8", status)
