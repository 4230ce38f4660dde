"""Chooses how records become columns: by compiled kernels where numba is installed, else record by record.

A process needs half a second to load numba and the kernels. Reading few records is faster without them: a
look at a topic (``show``, ``limit``), for which Spark starts a new worker every time, and the first
micro-batches. A process that has read some thousand records loads the kernels and uses them from then on.

Invariant: both give the same result. ``MOLDAU_SPARK_KERNELS=off`` chooses the one without kernels for the
whole process.
"""

import os
import sys
from importlib.util import find_spec
from typing import Any

from moldau.client.consumer.fetched import end_of
from moldau.protocol.records import batches
from moldau.spark.read import plain_decode
from moldau.spark.read.columns import Columns
from moldau.spark.read.decompression import Decompressor

#: Up to so many records, decoding takes less time than loading the kernels.
_FEW_RECORDS = 10_000
#: How many this process has decoded without them, as a list of one number.
_plain_records = [0]


def _wanted() -> bool:
    if os.environ.get("MOLDAU_SPARK_KERNELS", "").lower() in ("off", "0", "false"):
        return False
    return find_spec("numba") is not None


HAS_KERNELS = _wanted()


def decode(records: memoryview, *, decompressor: Decompressor | None = None, **asked: Any) -> Columns:
    """The records of a range in the bytes of a fetch; see ``plain_decode``."""
    if _loaded() or (HAS_KERNELS and not _still_few(records)):
        from moldau.spark.read import fast_decode

        return fast_decode.decode(records, decompressor=decompressor, **asked)
    return plain_decode.decode(records, **asked)


def next_offset_of(records: memoryview, first_offset: int) -> int:
    """Where the next fetch begins, from the headers of the batches alone."""
    if _loaded():
        from moldau.spark.read import fast_decode

        return fast_decode.next_offset_of(records, first_offset)
    return end_of(records, first_offset)


def _loaded() -> bool:
    return HAS_KERNELS and "moldau.spark.read.fast_decode" in sys.modules


def _still_few(records: memoryview) -> bool:
    _plain_records[0] += sum(header.record_count for _, header in batches(records))
    return _plain_records[0] <= _FEW_RECORDS
