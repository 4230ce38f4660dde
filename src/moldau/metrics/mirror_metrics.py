"""The metrics of a mirror: how far each partition is copied, what was copied, what was lost.

Invariant: part of the one table; names that MirrorMaker 2's guides use are not imitated, as the two count
different things.
"""

from moldau.metrics.table import counter, gauge

_FLOW = ("source", "target")
_PLACE = (*_FLOW, "topic", "partition")
BYTES_COPIED = counter(
    "moldau.mirror", "Flow", "BytesCopied", "Bytes of batches copied", *_FLOW, unit="bytes"
)
FLOW_LAG = gauge("moldau.mirror", "Flow", "Lag", "Records of the source that are not copied yet", *_FLOW)
REFUSED_TOPICS = gauge(
    "moldau.mirror", "Flow", "RefusedTopics", "Topics that somebody has to decide about", *_FLOW
)
PARTITION_LAG = gauge("moldau.mirror", "Partition", "Lag", "Records that are not copied yet", *_PLACE)
PARTITION_POSITION = gauge(
    "moldau.mirror", "Partition", "Position", "Offset up to which it is copied", *_PLACE
)
PARTITION_LOST = counter(
    "moldau.mirror", "Partition", "Lost", "Records that the source deleted before they were copied", *_PLACE
)
