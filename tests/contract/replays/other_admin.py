"""What else an administrator may ask of this broker: DescribeLogDirs and GetTelemetrySubscriptions."""

from collections.abc import Iterator
from typing import Any

from moldau.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from moldau.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from tests.contract.scene import Scene

#: Deliberate differences: what we answer instead.
DIFFERENT: dict[str, Any] = {}


def replay(scene: Scene) -> Iterator[tuple[str, Any]]:
    def describe(topic: str, version: int) -> Any:
        return scene.ask(DescribeLogDirsRequest([DescribableLogDirTopic(topic, [0])]), version)

    scene.create("b3", 3)
    yield "DescribeLogDirs", describe("b3", 4)
    yield "DescribeLogDirs v5", describe("b3", 5)
    yield "DescribeLogDirs unknown topic", {"topics": describe("nope", 4)["Results"][0]["Topics"]}
    yield "GetTelemetrySubscriptions", scene.ask(GetTelemetrySubscriptionsRequest(), 0)
