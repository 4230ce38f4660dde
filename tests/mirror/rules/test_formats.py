"""The records of a mirror against those that MirrorMaker 2 wrote."""

import json
from pathlib import Path
from typing import Any

import pytest

from moldau.mirror.rules import formats
from moldau.mirror.rules.formats import Checkpoint, Heartbeat, OffsetSync

CAPTURED: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "data" / "mirror" / "records.json").read_text()
)


def cases(*topics: str) -> list[tuple[dict[str, Any], bytes, bytes]]:
    return [
        (case, bytes.fromhex(case["key_hex"]), bytes.fromhex(case["value_hex"]))
        for topic in topics
        for case in CAPTURED[topic]
    ]


def test_heartbeats() -> None:
    found = cases("heartbeats on cluster B", "A.heartbeats on cluster B")
    assert len(found) == 6
    for case, key, value in found:
        beat = Heartbeat(*case["key"].values(), case["value"]["timestamp"])
        assert (beat.key(), beat.value()) == (key, value)
        assert formats.read_heartbeat(key, value) == beat


def test_checkpoints() -> None:
    found = cases("A.checkpoints.internal on cluster B")
    assert len(found) == 8
    for case, key, value in found:
        given = case["value"]
        each = Checkpoint(
            *case["key"].values(), given["upstreamOffset"], given["downstreamOffset"], given["metadata"]
        )
        assert (each.key(), each.value()) == (key, value)
        assert formats.read_checkpoint(key, value) == each


def test_offset_syncs() -> None:
    found = cases("mm2-offset-syncs.B.internal on cluster A")
    assert len(found) == 60
    for case, key, value in found:
        each = OffsetSync(*case["key"].values(), *case["value"].values())
        assert (each.key(), each.value()) == (key, value)
        assert formats.read_offset_sync(key, value) == each


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", b""),
        (b"\x00\x05ab", bytes(16)),
        (b"\xff\xff" + bytes(4), bytes(16)),
        (b"\x00\x01t" + bytes(4), bytes(15)),
        (b"\x00\x01t" + bytes(4), bytes(17)),
        (b"\x00\x01t" + bytes(5), bytes(16)),
    ],
)
def test_bytes_that_are_no_offset_sync(key: bytes, value: bytes) -> None:
    with pytest.raises(ValueError, match="bytes"):
        formats.read_offset_sync(key, value)


def test_a_version_that_is_not_known() -> None:
    with pytest.raises(ValueError, match="version 1"):
        formats.read_heartbeat(Heartbeat("A", "B", 1).key(), b"\x00\x01" + bytes(8))


def test_a_text_that_is_too_long() -> None:
    with pytest.raises(ValueError, match="too long"):
        Checkpoint("g" * 40_000, "t", 0, 1, 1).key()
