"""``moldau kafka-protobuf-console-consumer``: prints Protobuf records; see ``typed_console``."""

from functools import partial

from moldau.cli.kafka_tools.framework.tool import run_standard
from moldau.cli.kafka_tools.typed_console import PROTOBUF_CONSUMER as TOOL
from moldau.cli.kafka_tools.typed_console import consume

main = partial(consume, "PROTOBUF", TOOL)


def run(arguments: list[str]) -> int:
    return run_standard(TOOL, main, arguments)
