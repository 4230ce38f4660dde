"""What is missing in a program, or will hurt it later, with the fix.

Invariant: said before anything runs. Errors stop a program from being started; remarks do not.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from moldau.streams.engine.tables import TableSource
from moldau.streams.errors import TopologyError
from moldau.streams.topology.copartitioning import PartitionCount, repartition_counts
from moldau.streams.topology.topology import ProcessorNode, SinkNode, SourceNode, Topology

#: A retention longer than this keeps state for ever.
_CENTURY_MS = 100 * 365 * 24 * 3600 * 1000


class Advice(NamedTuple):
    kind: Literal["error", "remark"]
    problem: str
    fix: str


def advise(topology: Topology, partitions: Mapping[str, int] | None = None) -> list[Advice]:
    """Everything there is to say; with the numbers of partitions of topics, joins are checked as well."""
    found = [*_missing_serdes(topology), *_unbounded_state(topology)]
    if partitions is not None:
        found += _not_copartitioned(topology, partitions)
    return found


def _missing_serdes(topology: Topology) -> Iterator[Advice]:
    for node in topology.nodes.values():
        if not isinstance(node, SourceNode | SinkNode) or node.is_internal:
            continue
        missing = [
            word
            for word, own, default in (
                ("keys", node.key_serde, topology.default_key_serde),
                ("values", node.value_serde, topology.default_value_serde),
            )
            if own is None and default is None
        ]
        if missing:
            topics = node.topics if isinstance(node, SourceNode) else (node.topic or "chosen by a function",)
            option = "Consumed" if isinstance(node, SourceNode) else "Produced"
            yield Advice(
                "error",
                f"no serde for {' and '.join(missing)} of topic {', '.join(topics)}",
                f"give {option}.with_(key_serde, value_serde), or serdes for all to StreamsBuilder(…)",
            )


def _unbounded_state(topology: Topology) -> Iterator[Advice]:
    of_topics = {
        store
        for node in topology.nodes.values()
        if isinstance(node, ProcessorNode) and getattr(node.make, "func", None) is TableSource
        for store in node.stores
    }
    for store in topology.stores.values():
        if store.is_global or store.name in of_topics:
            continue
        if store.retention_ms is None:
            yield Advice(
                "remark",
                f"store {store.name} keeps a row for every key, for ever",
                "delete rows by values of None, or use windowed_by(…), if keys are not limited by themselves",
            )
        elif store.retention_ms > _CENTURY_MS:
            yield Advice(
                "remark",
                f"store {store.name} has windows that never end",
                "use TimeWindows or SessionWindows, if keys are not limited by themselves",
            )


def _not_copartitioned(topology: Topology, partitions: Mapping[str, int]) -> Iterator[Advice]:
    for group in topology.copartition_groups:
        topics: dict[str, PartitionCount] = {}
        for name in sorted(group):
            node = topology.nodes.get(name)
            if not isinstance(node, SourceNode):
                continue
            for topic in node.topics:
                repartition = topology.repartition_topics.get(topic)
                if repartition is not None:
                    topics[topic] = PartitionCount(repartition.partitions, is_repartition=True)
                else:
                    topics[topic] = PartitionCount(partitions.get(topic))
        try:
            repartition_counts(topics)
        except TopologyError as error:
            yield Advice("error", error.problem, error.fix)
        except LookupError as error:
            yield Advice("error", str(error.args[0]), "create the topic before the program is started")
