"""Which way records are read: few of them without the kernels, whose loading would take longer."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("pyarrow")
pytest.importorskip("numba")

SCRIPT = """
import sys
from moldau.protocol.records import Record, encode_batch
from moldau.spark.read.decoding import decode, next_offset_of

def fetched(first, count):
    records = [Record(first + n, 0, b"k", b"v") for n in range(count)]
    return memoryview(encode_batch(records, base_offset=first))

def read(first, count):
    data = fetched(first, count)
    columns = decode(data, name="t-0", first_offset=first, end_offset=1 << 60, aborted=None)
    return columns.rows, columns.next_offset, next_offset_of(data, first), columns.value[0].as_py()

print(read(0, 10), "numba" in sys.modules, "pandas" in sys.modules)
for first in range(10, 5_010, 1_000):
    read(first, 1_000)
print(read(5_010, int(sys.argv[1])), "numba" in sys.modules)
print(read(30_000, 1), "numba" in sys.modules)
"""


def said(last_piece: int) -> list[str]:
    command = [sys.executable, "-c", SCRIPT, str(last_piece)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_kernels_are_loaded_when_there_is_much_to_do() -> None:
    assert said(20_000) == [
        "(10, 10, 10, b'v') False False",
        "(20000, 25010, 25010, b'v') True",
        "(1, 30001, 30001, b'v') True",
    ]


def test_many_small_pieces_are_much_to_do_as_well() -> None:
    assert said(4_991)[1] == "(4991, 10001, 10001, b'v') True"
    assert said(4_990)[1] == "(4990, 10000, 10000, b'v') False"
