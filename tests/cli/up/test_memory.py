"""What the demo says of a small machine, and what it gives Spark there."""

from pathlib import Path

import pytest

from moldau.cli.up.memory import memory_bytes, memory_note, spark_heap

GIB = 1 << 30


@pytest.mark.parametrize(
    ("memory", "heap", "said"),
    [
        (None, "1g", None),
        (16 * GIB, "1g", None),
        (3 * GIB, "1g", None),
        (2 * GIB, "512m", "This machine has 2.0 GiB of memory: Spark gets a heap of 512 MB"),
        (GIB, "512m", "This machine has 1.0 GiB of memory, and the demo needs about 2: it may be ended"),
    ],
)
def test_by_memory(memory: int | None, heap: str, said: str | None) -> None:
    assert spark_heap(memory) == heap
    note = memory_note(memory)
    assert note is None if said is None else note is not None and note.startswith(said)


def test_a_container_has_less_than_the_machine(tmp_path: Path) -> None:
    machine = memory_bytes(())
    assert machine is not None
    assert machine > GIB // 4
    limit = tmp_path / "memory.max"
    assert memory_bytes((limit,)) == machine
    limit.write_text("max\n")
    assert memory_bytes((limit,)) == machine
    limit.write_text("2097152\n")
    assert memory_bytes((limit,)) == 2097152
