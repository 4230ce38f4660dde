"""Committed offsets: OffsetCommit, OffsetFetch and OffsetDelete, of groups without members."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.contract.members import commit, delete_offsets, fetch, open_coordinator
from tests.contract.scene import UNKNOWN_ID, Scene

#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {}


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    open_coordinator(scene)
    scene.create("b1")
    scene.create("b3", 3)
    yield from commits(scene)
    yield from fetches(scene)
    yield "OffsetDelete unknown group", delete_offsets(scene, "og-unknown", "b1")
    yield "OffsetDelete in an empty group", delete_offsets(scene, "og1", "b1", "nope")


def commits(scene: Scene) -> Iterator[tuple[str, Any]]:
    stranger = {"generation": 3, "member_id": "m"}
    yield "commit to a new group without member", commit(scene, "og1")
    yield "commit with generation to a new group", commit(scene, "og2", **stranger)
    yield (
        "commit with generation to a new group, older version",
        commit(scene, "og2", **stranger, version=8),
    )
    yield "commit to an unknown topic", commit(scene, "og1", topic="nope")
    yield "commit to an unknown partition", commit(scene, "og1", partition=9)
    yield "commit negative offset", commit(scene, "og1", -5)
    yield "fetch after the negative commit", fetch(scene, "og1", ("b1", [0]))
    yield "commit offset beyond the log end", commit(scene, "og1", 99_999)
    yield "metadata of 4096 bytes", commit(scene, "og1", metadata="m" * 4096)
    yield "metadata of 4097 bytes", commit(scene, "og1", metadata="m" * 4097)
    commit(scene, "og1", metadata=None)
    yield "null metadata", fetch(scene, "og1", ("b1", [0]))
    yield "empty group id", commit(scene, "")
    yield "unknown topic id", commit(scene, "og1", topic=UNKNOWN_ID, version=10)
    yield "topic id", commit(scene, "og1", topic=scene.topic_id("b3"), version=10)


def fetches(scene: Scene) -> Iterator[tuple[str, Any]]:
    yield (
        "fetch: committed, not committed, unknown partition, unknown topic",
        fetch(scene, "og1", ("b3", [0, 1, 9]), ("nope", [0])),
    )
    everything = fetch(scene, "og1")
    # The real broker lists topics by their hashes: the order of its answer says nothing.
    everything[0]["Topics"].sort(key=lambda topic: topic["Name"], reverse=True)
    yield "fetch all", everything
    yield "fetch unknown group", fetch(scene, "og-unknown", ("b1", [0]))
    yield (
        "fetch with member id, unknown group",
        fetch(scene, "og-unknown", ("b1", [0]), member_id="m", epoch=1),
    )
    known = scene.topic_id("b3")
    yield "fetch by topic id, one unknown", fetch(scene, "og1", (known, [0]), (UNKNOWN_ID, [0]), version=10)
    yield "fetch v1", scene.ask(OffsetFetchRequest("og1", [OffsetFetchRequestTopic("b3", [2])]), 1)
