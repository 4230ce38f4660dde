"""Which way records are read: few of them without the kernels, whose loading would take longer."""

import subprocess
import sys

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numba")

SCRIPT = """
import sys
from moldau.protocol.records import Record, encode_batch
from moldau.spark.decoding import decode, next_offset_of

def fetched(first, count):
    records = [Record(first + n, 0, b"k", b"v") for n in range(count)]
    return memoryview(encode_batch(records, base_offset=first))

def read(first, count):
    data = fetched(first, count)
    columns = decode(data, name="t-0", first_offset=first, end_offset=1 << 60, aborted=None)
    return columns.rows, columns.next_offset, next_offset_of(data, first), columns.value[0].as_py()

print(read(0, 10), "numba" in sys.modules, "pandas" in sys.modules)
print(read(10, 20_000), "numba" in sys.modules)
print(read(20_010, 1), "numba" in sys.modules)
"""


def test_the_kernels_are_loaded_when_there_is_much_to_do() -> None:
    said = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        "(10, 10, 10, b'v') False False",
        "(20000, 20010, 20010, b'v') True",
        "(1, 20011, 20011, b'v') True",
    ]
