"""Closing on a disk that is full or broken: what was written stays, and the next start knows."""

import errno
from typing import Any

import pytest

from moldau.storage.files import MemoryFiles

NOW = 1_700_000_000_000


@pytest.fixture
def node(make_node: Any, make_batch: Any) -> Any:
    node = make_node(MemoryFiles(), ["/data"])
    node.log().append(make_batch(3), 0, NOW)
    return node


def test_in_order(node: Any) -> None:
    node.logs.close()
    assert node.files.exists("/data/.kafka_cleanshutdown")


def test_a_full_disk(node: Any, caplog: pytest.LogCaptureFixture) -> None:
    node.files.faults.bytes_until_full = 0
    node.logs.close()
    assert not node.files.exists("/data/.kafka_cleanshutdown")
    assert node.logs.directories[0].offline is None
    assert "/data cannot be closed in order, and is checked at the next start" in caplog.text
    assert "Next: make room" in caplog.text
    node.start()
    assert "/data: the disk is full, 0 bytes are left" in caplog.text
    assert node.log().log_end_offset == 3


def test_a_broken_disk(node: Any) -> None:
    def broken(name: str, path: str) -> None:
        if path.endswith(".snapshot"):
            raise OSError(errno.EIO, "Input/output error", path)

    node.files.faults.on_operation = broken
    node.logs.close()
    assert node.logs.directories[0].offline is not None
    assert not node.files.exists("/data/.kafka_cleanshutdown")
