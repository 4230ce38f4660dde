"""The schema ids before the values of a whole column; the format is ``schemas.schema_id``'s.

Pure. A value that has no id where one must be gets a reason, and an id of -1.
"""

from typing import Any, TypeAlias

import numpy as np

from moldau.schemas.schema_id import ID_SIZE
from moldau.spark.write.rows import Pieces

Array: TypeAlias = Any


def read_frames(values: Pieces) -> tuple[Array, dict[int, str]]:
    """The schema id of each value, and what is wrong with those that have none; a null has -1."""
    ids = np.full(len(values.at), -1, np.int64)
    framed = framed_rows(values)
    at = values.at[framed]
    ids[framed] = (
        (values.data[at + 1].astype(np.int64) << 24)
        | (values.data[at + 2].astype(np.int64) << 16)
        | (values.data[at + 3].astype(np.int64) << 8)
        | values.data[at + 4]
    )
    reasons = {}
    for row in np.flatnonzero((values.sizes >= 0) & ~framed).tolist():
        start, size = int(values.at[row]), int(values.sizes[row])
        if size < ID_SIZE:
            reasons[row] = f"{size} bytes are too few for a schema id"
        else:
            first = int(values.data[start])
            reasons[row] = f"it begins with byte {first}, not with the 0 that stands before a schema id"
    return ids, reasons


def framed_rows(values: Pieces) -> Array:
    """Which values begin as a frame does."""
    framed = values.sizes >= ID_SIZE
    framed[framed] = values.data[values.at[framed]] == 0
    return framed
