"""FindCoordinator."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.contract.scene import Scene

#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {
    # We answer when the internal topic is there; Kafka answers that nobody coordinates it yet.
    "transaction, first ask": {
        "ThrottleTimeMs": 0,
        "Coordinators": [
            {
                "Key": "t-first",
                "NodeId": 1,
                "Host": "127.0.0.1",
                "Port": 9092,
                "ErrorCode": 0,
                "ErrorMessage": "",
            }
        ],
    },
}


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    def ask(version: int, key_type: int, *keys: str) -> Any:
        return scene.ask(FindCoordinatorRequest("cg", key_type, list(keys)), version)

    yield "group v0", ask(0, 0)
    yield "group v3", ask(3, 0)
    yield "group v4 two keys", ask(4, 0, "cg", "cg2")
    yield "transaction, first ask", ask(4, 1, "t-first")
    yield "unknown key type", ask(4, 9, "x")
    yield "share key type, malformed key", ask(6, 2, "x")
    yield "empty group id", ask(4, 0, "")
    yield "empty transactional id", ask(4, 1, "")
    yield "no keys", ask(4, 0)
