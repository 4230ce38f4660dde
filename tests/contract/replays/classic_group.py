"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and what others are told of a live group."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.api_keys import ApiKey
from tests.contract.golden import plain
from tests.contract.members import (
    commit,
    delete,
    delete_offsets,
    describe,
    first_beat,
    heartbeat,
    join,
    join_request,
    leave,
    new_member_id,
    open_coordinator,
    sync,
)
from tests.contract.scene import Scene

#: Nobody's session ends while the cases are played.
TIME_STANDS_STILL = True
#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {}

#: An assignment of nothing.
ASSIGNMENT = bytes(10)


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    open_coordinator(scene)
    scene.create("b1")
    yield from joining(scene)
    yield "life of one member", dict(life_of_one_member(scene))
    yield "second member joins", dict(second_member(scene))
    yield "static member", dict(static_member(scene))
    yield "leave: unknown member", leave(scene, "cg2", ("nope", None))
    yield "leave: unknown group", leave(scene, "cg-unknown", ("nope", None))
    yield "leave v2: unknown member", leave(scene, "cg2", ("nope", None), version=2)


def joining(scene: Scene) -> Iterator[tuple[str, Any]]:
    given = join(scene, "cg")
    yield "empty member id, v4+", given
    old = join(scene, "cg-v3", version=3)
    same = "same" if old["Leader"] == old["MemberId"] else old["Leader"]
    members = len(old["Members"])
    yield (
        "empty member id, v3",
        {**old, "Leader": same, "MemberId": shape_of(old["MemberId"], "<client id>"), "Members": members},
    )
    static = join(scene, "cg-st", instance="i1")
    yield (
        "empty member id with instance id",
        {
            **static,
            "MemberId": shape_of(static["MemberId"], "<instance id>", "i1"),
            "Members": len(static["Members"]),
        },
    )
    yield "shape of the member id given", {"pattern": shape_of(given["MemberId"], "golden")}
    yield "unknown member id", join(scene, "cg", "nope")
    yield "empty group id", join(scene, "")
    yield "session timeout too small", join(scene, "cg-t", session_timeout_ms=5_999)
    yield "session timeout too large", join(scene, "cg-t", session_timeout_ms=1_800_001)
    yield "no protocols", join(scene, "cg-np", protocols=())
    yield "empty protocol type", join(scene, "cg-x", protocol_type="")


def shape_of(member_id: str, called: str, prefix: str = "golden") -> str:
    """A member id is what it is made from and a UUID; the comparison knows UUIDs."""
    assert member_id.startswith(f"{prefix}-")
    assert len(member_id) == len(prefix) + 37
    return f"{called}-<uuid>"


def only(answer: Any, *names: str) -> Any:
    return {name: answer[name] for name in names}


def without(answer: Any, *names: str) -> Any:
    return {name: content for name, content in answer.items() if name not in names}


# --- one member ---------------------------------------------------------------------------------


def life_of_one_member(scene: Scene) -> Iterator[tuple[str, Any]]:
    group = "cg1"
    member = new_member_id(scene, group)
    joined = join(scene, group, member)
    yield (
        "join",
        {
            **without(joined, "Leader", "MemberId", "Members"),
            "leader_is_self": joined["Leader"] == member,
            "members": len(joined["Members"]),
        },
    )
    yield "heartbeat before sync", heartbeat(scene, group, member, 1)
    synced = sync(scene, group, member, 1, ASSIGNMENT)
    yield "sync", {**synced, "Assignment": synced["Assignment"]["hex"]}
    yield "sync again", without(sync(scene, group, member, 1), "Assignment")
    yield "heartbeat", heartbeat(scene, group, member, 1)
    yield "heartbeat generation+1", heartbeat(scene, group, member, 2)
    yield "heartbeat unknown member", heartbeat(scene, group, "nope", 1)
    yield "heartbeat unknown group", heartbeat(scene, "cg-unknown", member, 1)
    yield "sync wrong generation", sync(scene, group, member, 2)
    yield "sync unknown member", sync(scene, group, "nope", 1)
    yield "sync wrong protocol name", sync(scene, group, member, 1, protocol_name="roundrobin")
    yield "sync wrong protocol type", sync(scene, group, member, 1, protocol_type="connect")
    yield from commits(scene, group, member)
    again = join(scene, group, member)
    yield "join again, same member, same protocols (leader)", only(again, "ErrorCode", "GenerationId")
    yield "join inconsistent protocol name", join(scene, group, protocols=("roundrobin",))
    yield "join inconsistent protocol type", join(scene, group, protocol_type="connect")
    sync(scene, group, member, 2, b"")
    yield from asked_from_outside(scene, group, member)


def commits(scene: Scene, group: str, member: str) -> Iterator[tuple[str, Any]]:
    yield "commit good", commit(scene, group, generation=1, member_id=member)
    yield "commit generation+1", commit(scene, group, generation=2, member_id=member)
    yield "commit unknown member", commit(scene, group, generation=1, member_id="nope")
    yield "commit without member (simple consumer) on an active group", commit(scene, group)


def asked_from_outside(scene: Scene, group: str, member: str) -> Iterator[tuple[str, Any]]:
    described = describe(scene, group)["Groups"]
    (shown,) = described[0]["Members"]
    assert shown["MemberId"] == member
    shown["MemberId"] = "<member id>"
    yield "describe", described
    yield "DeleteGroups while active", delete(scene, group)["Results"]
    yield "OffsetDelete for a subscribed topic", delete_offsets(scene, group, "b1")
    upgraded = first_beat(scene, group, "AAAAAAAAAAAAAAAAAAAAAw", "b1")
    yield (
        "consumer-protocol heartbeat to this classic group",
        only(upgraded, "ErrorCode", "ErrorMessage"),
    )


# --- two members --------------------------------------------------------------------------------


def state_of(scene: Scene, group: str) -> str:
    state: str = describe(scene, group)["Groups"][0]["GroupState"]
    return state


def second_member(scene: Scene) -> Iterator[tuple[str, Any]]:
    group = "cg2"
    first = new_member_id(scene, group)
    join(scene, group, first)
    sync(scene, group, first, 1, ASSIGNMENT)
    with scene.connect() as other:
        second = scene.ask(join_request(group), 9, other)["MemberId"]
        other.send(join_request(group, second), 9)
        while state_of(scene, group) == "Stable":
            assert other.is_silent()
        yield "heartbeat of the first while a second joins", heartbeat(scene, group, first, 1)
        yield "state", state_of(scene, group)
        rejoined = join(scene, group, first)
        yield "first rejoins", seen_by(rejoined)
        yield "second", seen_by(plain(other.receive(ApiKey.JOIN_GROUP, 9), 9))
    yield "commit while CompletingRebalance", commit(scene, group, generation=2, member_id=first)
    yield "heartbeat while CompletingRebalance", heartbeat(scene, group, first, 2)
    yield "state2", state_of(scene, group)


def seen_by(joined: Any) -> Any:
    return {
        **only(joined, "ErrorCode", "GenerationId"),
        "is_leader": joined["Leader"] == joined["MemberId"],
        "members_seen": len(joined["Members"]),
    }


# --- static members -----------------------------------------------------------------------------


def static_member(scene: Scene) -> Iterator[tuple[str, Any]]:
    group, instance = "cg3", "s1"
    first = join(scene, group, instance=instance)
    old = first["MemberId"]
    sync(scene, group, old, 1, ASSIGNMENT)
    again = join(scene, group, instance=instance)
    yield (
        "same instance joins again without member id",
        {
            **only(again, "ErrorCode", "GenerationId", "SkipAssignment"),
            "first_generation": first["GenerationId"],
            "new_member_id": again["MemberId"] != old,
        },
    )
    yield "old member id heartbeat", heartbeat(scene, group, old, 1, instance)
    yield (
        "old member id commit",
        commit(scene, group, generation=1, member_id=old, instance=instance),
    )
    yield "wrong instance id", heartbeat(scene, group, again["MemberId"], 1, "other")
    yield "leave by instance id", leave(scene, group, ("", instance), ("", "unknown"))
