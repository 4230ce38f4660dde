"""Which way records become columns: by compiled kernels where numba is there, else record by record.

Law: one decision for the whole process. ``MOLDAU_SPARK_KERNELS=off`` chooses the plain way.
"""

import os
from collections.abc import Callable

from moldau.client.fetched import end_of
from moldau.spark.columns import Columns

Decode = Callable[..., Columns]


def _fast() -> bool:
    if os.environ.get("MOLDAU_SPARK_KERNELS", "").lower() in ("off", "0", "false"):
        return False
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


HAS_KERNELS = _fast()

if HAS_KERNELS:
    from moldau.spark.fast_decode import decode as decode
    from moldau.spark.fast_decode import next_offset_of as next_offset_of
else:
    from moldau.spark.plain_decode import decode as decode

    def next_offset_of(records: memoryview, first_offset: int) -> int:
        return end_of(records, first_offset)
