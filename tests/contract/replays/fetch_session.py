"""Fetch sessions: one life, and the ways to ask for one that is not there."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.fetch import FetchRequest, ForgottenTopic
from tests.contract.batches import batch
from tests.contract.replays.fetch import fetch, fill, partition
from tests.contract.scene import UNKNOWN_ID, Scene

#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {}


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    fill(scene)
    yield "life of a session", life(scene)
    yield "unknown session id", scene.ask(follow(12345, 1), 12)
    new = scene.ask(fetch(0, session_id=12345, session_epoch=0), 12)
    yield (
        "session id with epoch 0",
        {"ErrorCode": new["ErrorCode"], "SessionId_new": new["SessionId"] not in (0, 12345)},
    )
    closed = scene.ask(fetch(0, session_id=12345, session_epoch=-1), 12)
    yield (
        "session id with epoch -1",
        {
            "ErrorCode": closed["ErrorCode"],
            "SessionId": closed["SessionId"],
            "topics": len(closed["Responses"]),
        },
    )
    made = scene.ask(fetch(0, session_epoch=0), 12)
    with scene.connect() as other:
        moved = scene.ask(follow(made["SessionId"], 1), 12, other)
    yield "session used from another connection", {"ErrorCode": moved["ErrorCode"]}
    yield "new session with an unknown topic id", scene.ask(fetch(0, UNKNOWN_ID, session_epoch=0), 13)
    yield "new session with an unknown topic name", scene.ask(fetch(0, "nope", session_epoch=0), 12)


def follow(session_id: int, epoch: int, forgotten: list[ForgottenTopic] | None = None) -> FetchRequest:
    """The next request of a session, which names nothing."""
    return FetchRequest(
        min_bytes=1, session_id=session_id, session_epoch=epoch, forgotten_topics_data=forgotten or []
    )


def life(scene: Scene) -> dict[str, Any]:
    def told(answer: Any, *more: str) -> dict[str, Any]:
        shown = {"ErrorCode": answer["ErrorCode"], "topics_in_answer": len(answer["Responses"])}
        return shown | {name: answer[name] for name in more}

    steps: dict[str, Any] = {}
    made = scene.ask(fetch(20, session_epoch=0), 12)
    own = made["SessionId"]
    steps["create(epoch 0)"] = {"SessionId>0": own > 0, **told(made)}
    quiet = scene.ask(follow(own, 1), 12)
    steps["epoch 1, no topics, nothing new"] = {"SessionId==": quiet["SessionId"] == own, **told(quiet)}
    scene.produce("f1", batch(timestamp=scene.now_ms))
    news = scene.ask(follow(own, 2), 12)
    records = partition(news)["Records"]["bytes"]
    steps["epoch 2 after one produced record"] = {**told(news), "records": records}
    again = scene.ask(follow(own, 3), 12)
    steps["epoch 3, fetch offset not moved by the client"] = {"topics_in_answer": len(again["Responses"])}
    steps["epoch 4 with offset 21"] = told(scene.ask(fetch(21, session_id=own, session_epoch=4), 12))
    steps["epoch 9 (wrong)"] = told(scene.ask(follow(own, 9), 12), "SessionId")
    steps["epoch 5 (right again after the error)"] = told(scene.ask(follow(own, 5), 12))
    left = scene.ask(follow(own, 6, [ForgottenTopic("f1", partitions=[0])]), 12)
    steps["epoch 6 forget the only partition"] = {
        "ErrorCode": left["ErrorCode"],
        "SessionId==": left["SessionId"] == own,
        "SessionId": "zero" if left["SessionId"] == 0 else left["SessionId"],
    }
    steps["epoch 7 after that"] = {"ErrorCode": scene.ask(follow(own, 7), 12)["ErrorCode"]}
    return steps
