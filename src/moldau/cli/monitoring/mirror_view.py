"""What the flows of a mirror are doing, as metrics over HTTP.

Invariant: reads what the flows keep anyway; a partition is shown by the process that copies it.
"""

from collections.abc import Iterable, Iterator

from moldau.base.clock import stopwatch
from moldau.base.http_server import Request, Response
from moldau.base.names import TopicPartition
from moldau.metrics import mirror_metrics as names
from moldau.metrics.prometheus import PROMETHEUS_TYPE, exposition
from moldau.metrics.readings import Keys, Reading
from moldau.mirror.exact_copy import Progress
from moldau.mirror.flow import Flow


class MirrorView:
    def __init__(self, flows: list[Flow]) -> None:
        self._flows = flows

    async def answer(self, request: Request) -> Response:
        if request.path == "/metrics":
            text = "".join(exposition(self.readings(), stopwatch()))
            return Response(text.encode(), PROMETHEUS_TYPE)
        if request.path == "/healthz":
            return Response(b"GOOD\n")
        return Response(b"there is /metrics and /healthz\n", status=404)

    def readings(self) -> Iterable[Reading]:
        flows = {(each.settings.source, each.settings.target): each.status for each in self._flows}
        yield Reading(names.BYTES_COPIED, [(flow, each.bytes_copied) for flow, each in flows.items()])
        yield Reading(names.FLOW_LAG, [(flow, each.lag) for flow, each in flows.items()])
        yield Reading(
            names.REFUSED_TOPICS, [(flow, len(each.topics.refused)) for flow, each in flows.items()]
        )
        yield Reading(names.PARTITION_LAG, [(keys, each.lag) for keys, each in self._places()])
        yield Reading(names.PARTITION_POSITION, [(keys, each.position) for keys, each in self._places()])
        yield Reading(names.PARTITION_LOST, [(keys, each.lost) for keys, each in self._places()])

    def _places(self) -> Iterator[tuple[Keys, Progress]]:
        for flow in self._flows:
            places: dict[TopicPartition, Progress] = flow.status.progress
            for (topic, partition), progress in places.items():
                yield (flow.settings.source, flow.settings.target, topic, str(partition)), progress
