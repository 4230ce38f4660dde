"""Count per key with bytewax, every update to a topic, at least once: SERVERS TOPIC; runs until ended."""

import sys

from bytewax import operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

servers, topic = sys.argv[1:]
flow = Dataflow("count")
read = kop.input("in", flow, brokers=[servers], topics=["in"])
keyed = op.map("key", read.oks, lambda message: (message.key.decode(), 1))


def count(state, value):
    state = (state or 0) + 1
    return state, state


counts = op.stateful_map("count", keyed, count)
rows = op.map("row", counts, lambda row: KafkaSinkMessage(row[0].encode(), row[1].to_bytes(8, "big")))
kop.output("out", rows, brokers=[servers], topic=topic)
run_main(flow)
