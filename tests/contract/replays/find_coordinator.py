"""FindCoordinator, as far as a broker without transactions can answer."""

from collections.abc import Iterator
from typing import Any

from scene import Scene

from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest

NO_TRANSACTIONS = "This broker does not have transactions yet: leave transactional.id unset."


def refused(key: str, code: int, message: str) -> dict[str, Any]:
    return {"Key": key, "NodeId": -1, "Host": "", "Port": -1, "ErrorCode": code, "ErrorMessage": message}


def of(*coordinators: dict[str, Any]) -> dict[str, Any]:
    return {"ThrottleTimeMs": 0, "Coordinators": list(coordinators)}


#: Transactions have no coordinator here yet, and are told so.
DIFFERENT: dict[str, Any] = {
    "transaction, first ask": of(refused("t-first", 42, NO_TRANSACTIONS)),
    "empty transactional id": of(refused("", 42, NO_TRANSACTIONS)),
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
