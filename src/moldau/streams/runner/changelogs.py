"""Tables as compacted topics that other tools can read, in the format of Kafka Streams' changelogs.

Invariant: a topic has the key by the store's serde, and the value by the store's serde; the last change of a
row in a batch is what is sent. Stores without serdes, and those that only hold something back, have none.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from moldau.spark.read.columns import number_array
from moldau.streams.engine.stores.tables import KeyValueStore, TableStore, VersionedStore
from moldau.streams.runner.layout import InternalTopic
from moldau.streams.runner.record_codecs import encoder
from moldau.streams.runner.saved_state import Saved
from moldau.streams.topology.topology import StoreSpec, Topology

_CONFIGS: dict[str, str | None] = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}


class Changelogs:
    """The changelogs of an application's plain tables."""

    def __init__(self, topology: Topology, application_id: str) -> None:
        self._topology = topology
        self._application_id = application_id

    def _name(self, spec: StoreSpec) -> str:
        return f"{self._application_id}-{spec.changelog}"

    def _specs(self) -> Iterator[tuple[StoreSpec, object, object]]:
        topology = self._topology
        for name, spec in topology.stores.items():
            key = spec.key_serde if spec.key_serde is not None else topology.default_key_serde
            value = spec.value_serde if spec.value_serde is not None else topology.default_value_serde
            if key is None or value is None or spec.is_global or not spec.is_logged:
                continue
            made = spec.make()
            is_plain = isinstance(made, TableStore | KeyValueStore) and not isinstance(made, VersionedStore)
            if is_plain and name not in topology.reused_topics:
                yield spec, key, value

    def topics(self, partitions: int) -> list[InternalTopic]:
        return [InternalTopic(self._name(spec), partitions, _CONFIGS) for spec, _, _ in self._specs()]

    def batches(self, saved: Saved) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Topic and rows of each table that changed."""
        for spec, key_serde, value_serde in self._specs():
            changes = saved.state.stores.get(spec.name)
            if changes is None or not changes.rows:
                continue
            topic = self._name(spec)
            rows = list(changes.rows.values())
            has_times = isinstance(spec.make(), TableStore)
            values = [None if row is None else row[0] if has_times else row for row in rows]
            newest = max((row[1] for row in rows if has_times and row is not None), default=0)
            times = [row[1] if has_times and row is not None else newest for row in rows]
            yield (
                topic,
                pa.RecordBatch.from_arrays(
                    [
                        encoder(key_serde, topic)(list(changes.rows)),
                        encoder(value_serde, topic)(values),
                        number_array(np.array(times, np.int64), pa.timestamp("ms", tz="UTC")),
                    ],
                    names=["key", "value", "timestamp"],
                ),
            )
