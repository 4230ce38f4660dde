"""The metrics of the lag monitor; a status is a number: 0 OK, 1 WARN, 2 ERR, 3 REWIND, 4 STALL, 5 STOP.

Invariant: part of the one table.
"""

from moldau.metrics.table import gauge

_PLACE = ("group", "topic", "partition")
GROUP_STATUS = gauge(
    "moldau.lag", "Group", "Status", "0: it keeps up; 1: it gets slower; 2: a partition is not read", "group"
)
GROUP_LAG = gauge("moldau.lag", "Group", "Lag", "Records that the group has not read yet", "group")
PARTITION_STATUS = gauge(
    "moldau.lag", "Partition", "Status", "0 OK, 1 WARN, 3 REWIND, 4 STALL, 5 STOP, by Burrow's rules", *_PLACE
)
PARTITION_LAG = gauge("moldau.lag", "Partition", "Lag", "Records that were not read yet", *_PLACE)
