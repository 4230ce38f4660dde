"""Stream processing with Kafka Streams' words and Kafka Streams' results (docs/streams.md).

Invariant: importing this needs neither Spark nor a broker.
"""

from moldau.streams.columns import KEY, VALUE, Column, col
from moldau.streams.dsl.builder import StreamsBuilder
from moldau.streams.dsl.grouped import (
    CogroupedKStream,
    KGroupedStream,
    WindowedCogroupedKStream,
    WindowedKStream,
)
from moldau.streams.dsl.grouped_table import KGroupedTable
from moldau.streams.dsl.options import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    Joined,
    Materialized,
    Produced,
    Repartitioned,
    StreamJoined,
    Suppressed,
)
from moldau.streams.dsl.stores import Stores
from moldau.streams.dsl.streams import BranchedKStream, KStream
from moldau.streams.dsl.tables import GlobalKTable, KTable
from moldau.streams.dsl.windows import (
    JoinWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)
from moldau.streams.engine.processors import Processor, ProcessorContext, Record
from moldau.streams.engine.records import Windowed
from moldau.streams.errors import StreamsError, TopologyError
from moldau.streams.serdes import Serdes
from moldau.streams.test_driver import TestDriver
from moldau.streams.topology.topology import Topology

__all__ = [
    "KEY",
    "VALUE",
    "BranchedKStream",
    "BufferConfig",
    "CogroupedKStream",
    "Column",
    "Consumed",
    "EmitStrategy",
    "GlobalKTable",
    "Grouped",
    "JoinWindows",
    "Joined",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "Materialized",
    "Processor",
    "ProcessorContext",
    "Produced",
    "Record",
    "Repartitioned",
    "Serdes",
    "SessionWindows",
    "SlidingWindows",
    "Stores",
    "StreamJoined",
    "StreamsBuilder",
    "StreamsError",
    "Suppressed",
    "TestDriver",
    "TimeWindows",
    "Topology",
    "TopologyError",
    "UnlimitedWindows",
    "Windowed",
    "WindowedCogroupedKStream",
    "WindowedKStream",
    "col",
]
