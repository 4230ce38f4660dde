"""What is worth doing once after an installation: ``python -m moldau.spark.session.warm_up``.

The kernels that turn records into columns and back are compiled by numba when they are first used, and kept
beside the package; the class that reads topics by column is compiled by Spark's own compiler; the classes of
Spark can be kept as an archive from which Java starts faster. Set-up does all three, so that the first query
does not wait for it.

Invariant: no cluster is needed: it works on a few made-up records. What cannot be done on this machine is
left out; everything works without it, only more slowly at first.
"""

import json

import pyarrow as pa

from moldau.protocol.compression import Compression
from moldau.spark.jvm.columnar_jar import columnar_jar
from moldau.spark.read.decoding import HAS_KERNELS
from moldau.spark.session.class_archive import java_options, make_archive
from moldau.spark.session.java import JavaNotFound, find_java
from moldau.spark.typed.formats import FORMATS
from moldau.spark.typed.registry import SchemaText
from moldau.spark.write.encode import choose_partitions, encoded_batches
from moldau.spark.write.rows import rows_of

#: A record with a text and two numbers, and one as Avro writes it.
_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Any",
        "fields": [
            {"name": "text", "type": "string"},
            {"name": "number", "type": "int"},
            {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
)
_VALUE = b"\x02a\x02\x02"
_BATCH_BYTES = 1024 * 1024


def compile_kernels() -> None:
    """One record through the writer's kernels, the reader's, and those of typed values."""
    from moldau.spark.read.fast_decode import decode

    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    given = {
        "key": pa.array([b"a"], pa.binary()),
        "value": pa.array([_VALUE], pa.binary()),
        "headers": pa.array([[("h", b"1")]], header),
    }
    rows = rows_of(pa.RecordBatch.from_pydict(given), 0)
    for payload in encoded_batches(
        rows, choose_partitions(rows, 1, 0), 1, _BATCH_BYTES, _BATCH_BYTES, Compression.NONE
    ):
        batch = payload.stamped(-1, -1, -1, transactional=False)
        for headers in (False, True):
            # As a task has it: bytes that a socket was read into.
            fetched = memoryview(bytearray(batch))
            decode(fetched, name="warm-up", first_offset=0, end_offset=1, aborted=None, headers=headers)
    FORMATS["avro"].decoder(SchemaText(_SCHEMA), None, None).decode(given["value"])


def main() -> None:
    if HAS_KERNELS:
        compile_kernels()
    try:
        java_home = find_java().path
    except JavaNotFound:
        return
    if jar := columnar_jar(java_home):
        print(f"reads by column, in sessions of your own with spark.jars={jar}", flush=True)
    if not java_options(java_home):
        print(
            "keeping Spark's classes as an archive, so that sessions start faster (half a minute, once)",
            flush=True,
        )
        make_archive(java_home)


if __name__ == "__main__":
    main()
