"""What tools ask about groups: DescribeGroups, ListGroups, DeleteGroups, ConsumerGroupDescribe."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from moldau.testing import Broker
from tests.contract.golden import CLOSED
from tests.contract.members import (
    commit,
    delete,
    describe,
    describe_consumers,
    join,
    list_groups,
    open_coordinator,
)
from tests.contract.replays import classic_group, offsets
from tests.contract.scene import REAL_NODE, Scene

#: Nobody's session ends while the cases are played.
TIME_STANDS_STILL = True
#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {
    # There are no share groups yet; what is not there is not advertised, and asking for it all the same ends
    # the connection as with any API that a broker does not know.
    "ShareGroupDescribe unknown": CLOSED,
}

FILTERS: list[tuple[list[str], list[str]]] = [
    (["Empty"], []),
    (["empty"], []),
    (["EMPTY"], []),
    ([], ["classic"]),
    ([], ["CLASSIC"]),
    ([], ["Classic"]),
]


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    # The real node had lived through these cases when it was asked.
    dict(classic_group.replay(scene))
    dict(offsets.commits(scene_with_b3(scene)))
    yield "DescribeGroups unknown", describe(scene, "nope", version=5)
    yield "DescribeGroups unknown, v6", describe(scene, "nope")
    yield "DescribeGroups empty group (simple commits)", describe(scene, "og1")
    allowed = describe(scene, "og1", operations=True)["Groups"][0]["AuthorizedOperations"]
    yield "DescribeGroups authorized operations", allowed
    yield "DeleteGroups unknown", delete(scene, "nope")
    yield "DeleteGroups empty id", delete(scene, "")
    yield "ConsumerGroupDescribe of a classic group", describe_consumers(scene, "og1")
    yield "ConsumerGroupDescribe unknown", describe_consumers(scene, "nope")
    yield "ShareGroupDescribe unknown", scene.ask(ShareGroupDescribeRequest(["nope"]), 1)
    yield "ListGroups", list_groups(scene)["Groups"]
    yield "ListGroups unknown state and type", list_groups(scene, ["Foo"], ["bar"])
    with Broker(REAL_NODE) as fresh:
        yield from on_a_fresh_node(Scene(fresh))


def scene_with_b3(scene: Scene) -> Scene:
    scene.create("b3", 3)
    return scene


def on_a_fresh_node(scene: Scene) -> Iterator[tuple[str, Any]]:
    open_coordinator(scene)
    scene.create("b1")
    commit(scene, "e1")
    for states, types in FILTERS:
        listed = list_groups(scene, states, types)["Groups"]
        case = f"ListGroups filter states={states} types={types}"
        yield case, {"groups": [group["GroupId"] for group in listed]}
    first, second = join(scene, "ghost"), join(scene, "ghost2", protocols=())
    ghosts = [group for group in list_groups(scene)["Groups"] if group["GroupId"] != "e1"]
    yield (
        "a refused JoinGroup leaves an empty group",
        {
            "first": {"ErrorCode": first["ErrorCode"]},
            "second": {"ErrorCode": second["ErrorCode"]},
            "ListGroups": ghosts,
        },
    )
    scene.close()
