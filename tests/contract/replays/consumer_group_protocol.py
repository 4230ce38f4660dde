"""Consumer groups of the new protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe."""

from collections.abc import Iterator
from typing import Any

from tests.contract.golden import BEHAVIOURS
from tests.contract.members import (
    beat,
    commit,
    delete,
    describe,
    describe_consumers,
    fetch,
    first_beat,
    heartbeat,
    join,
    open_coordinator,
)
from tests.contract.scene import Scene

#: Targets are made at most once in a while, and sessions end: the cases say when time passes.
TIME_STANDS_STILL = True
#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {}

#: Members make their own ids.
FIRST, SECOND = "AAAAAAAAAAAAAAAAAAAAAw", "AAAAAAAAAAAAAAAAAAAABA"
HAND_OVER = "a second member joins: the hand-over"
#: What the captured steps left out by repeating them until something happened.
ASSIGNMENT_INTERVAL_SECONDS = 1.0


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    open_coordinator(scene)
    scene.create("b1")
    scene.create("b3", 3)
    yield "join with an empty member id", first_beat(scene, "kg1", "", "b3")
    made = first_beat(scene, "kg0", "", "b3", version=0)
    assert len(made["MemberId"]) == 22
    yield "join v0 with an empty member id", {**made, "MemberId": "<base64 uuid, 22 chars>"}
    yield "life of one member", dict(life_of_one_member(scene))
    yield from refusals(scene)
    yield "good regex", first_beat(scene, "kg3", FIRST, names=None, subscribed_topic_regex="b.*")
    yield "unknown topic subscribed", first_beat(scene, "kg4", FIRST, "unknown")
    yield "non-zero epoch to an unknown group", beat(scene, "kg5", FIRST, 5)
    yield "member epoch -2 without instance id", beat(scene, "kg4", FIRST, -2)
    first_beat(scene, "kg6", FIRST, "b3", instance_id="i")
    yield "instance id taken", first_beat(scene, "kg6", SECOND, "b3", instance_id="i")
    yield HAND_OVER, hand_over(scene)


def refusals(scene: Scene) -> Iterator[tuple[str, Any]]:
    def refused(group: str = "kg2", **options: Any) -> Any:
        return first_beat(scene, group, FIRST, "b3", **options)

    yield "empty group id", refused("")
    yield "no rebalance timeout on join", refused(timeout_ms=-1)
    yield "no topics on join", refused(names=None)
    yield "TopicPartitions null on join", refused(owned=None)
    yield "TopicPartitions not empty on join", refused(owned=[(scene.topic_id("b3"), [0])])
    yield "unknown assignor", refused(server_assignor="foo")
    yield "bad regex", refused(names=None, subscribed_topic_regex="[a")


# --- one member ---------------------------------------------------------------------------------


def life_of_one_member(scene: Scene) -> Iterator[tuple[str, Any]]:
    group, topic = "kg1", scene.topic_id("b3")
    everything = [(topic, [0, 1, 2])]
    joined = first_beat(scene, group, FIRST, "b3")
    yield "join", joined
    # The answer to the join carries it already, and the captured case asked until it came.
    yield "first heartbeat that carries the assignment", joined
    epoch = joined["MemberEpoch"]
    yield "acknowledge", beat(scene, group, FIRST, epoch, owned=everything)
    yield "plain heartbeat", beat(scene, group, FIRST, epoch)
    yield "epoch+1", beat(scene, group, FIRST, epoch + 1)
    yield "epoch-1", beat(scene, group, FIRST, epoch - 1)
    yield "unknown member", beat(scene, group, SECOND, epoch)
    yield (
        "owning a partition that was not assigned",
        beat(scene, group, FIRST, epoch, owned=[(topic, [0, 1, 2, 7])]),
    )
    yield from commits_and_fetches(scene, group, epoch)
    yield from asked_by_others(scene, group)
    yield "leave (epoch -1)", beat(scene, group, FIRST, -1)
    yield "heartbeat after leave", beat(scene, group, FIRST, epoch)
    yield "leave twice", beat(scene, group, FIRST, -1)


def commits_and_fetches(scene: Scene, group: str, epoch: int) -> Iterator[tuple[str, Any]]:
    def committed(member_id: str, member_epoch: int, version: int = 9) -> Any:
        return commit(scene, group, topic="b3", generation=member_epoch, member_id=member_id, version=version)

    def fetched(member_id: str, member_epoch: int) -> Any:
        return fetch(scene, group, ("b3", [0]), member_id=member_id, epoch=member_epoch)

    yield "commit good", committed(FIRST, epoch)
    yield "commit stale epoch", committed(FIRST, epoch - 1)
    yield "commit epoch+1", committed(FIRST, epoch + 1)
    yield "commit unknown member", committed(SECOND, epoch)
    yield "commit without member", committed("", -1)
    yield "commit v8 with wrong epoch", committed(FIRST, epoch - 1, version=8)
    yield "fetch offsets good", fetched(FIRST, epoch)
    yield "fetch offsets wrong epoch", fetched(FIRST, epoch - 1)
    yield "fetch offsets unknown member", fetched(SECOND, epoch)


def asked_by_others(scene: Scene, group: str) -> Iterator[tuple[str, Any]]:
    yield "classic JoinGroup to this group, other assignor", join(scene, group, protocols=("roundrobin",))
    yield "classic Heartbeat", heartbeat(scene, group, FIRST, 1)
    yield "ConsumerGroupDescribe", describe_consumers(scene, group)["Groups"]
    yield "DescribeGroups v6 of it", describe(scene, group)["Groups"]
    yield "DescribeGroups v5 of it", describe(scene, group, version=5)["Groups"]
    yield "DeleteGroups", delete(scene, group)["Results"]


# --- two members --------------------------------------------------------------------------------


def hand_over(scene: Scene) -> Any:
    """The captured steps, sent again in their order; time passes where it passed for the real broker."""
    members = {"A": FIRST, "B": SECOND}
    last: dict[str, Any] = {}
    shown = []
    for step in BEHAVIOURS["consumer-group-protocol"][HAND_OVER]["steps (repeats left out)"]:
        name, sent = step["member"], step["sent"]
        if step["answer"]["MemberEpoch"] > sent["epoch"] > 0 and name == "B":
            scene.broker.clock.advance(ASSIGNMENT_INTERVAL_SECONDS)
        answer = said(scene, members[name], sent["epoch"], sent["owned"])
        last[name] = {"epoch": answer["MemberEpoch"], "owned": last.get(name, {}).get("owned", [])}
        if answer["Assignment"] is not None:
            last[name]["owned"] = answer["Assignment"]
        shown.append({"member": name, "sent": sent, "answer": answer})
    final: dict[str, Any] = {name: state["owned"] for name, state in sorted(last.items())}
    final["epochs"] = [state["epoch"] for _, state in sorted(last.items())]
    return {"steps (repeats left out)": shown, "final": final}


def said(scene: Scene, member_id: str, epoch: int, owned: list[int]) -> Any:
    """One heartbeat that names what the member owns, and its answer with the partitions of the one topic."""
    topic = scene.topic_id("b3")
    partitions = [(topic, owned)] if owned else []
    if epoch:
        answer = beat(scene, "kg7", member_id, epoch, owned=partitions)
    else:
        answer = first_beat(scene, "kg7", member_id, "b3")
    given = answer["Assignment"]
    if given is not None:
        given = [index for each in given["TopicPartitions"] for index in each["Partitions"]]
    return {"ErrorCode": answer["ErrorCode"], "MemberEpoch": answer["MemberEpoch"], "Assignment": given}
