"""``moldau kafka-protobuf-console-producer``: Protobuf from lines of JSON; see ``typed_console``."""

from functools import partial

from moldau.cli.kafka_tools.framework.tool import run_standard
from moldau.cli.kafka_tools.typed_console import PROTOBUF_PRODUCER as TOOL
from moldau.cli.kafka_tools.typed_console import produce

main = partial(produce, "PROTOBUF", TOOL)


def run(arguments: list[str]) -> int:
    return run_standard(TOOL, main, arguments)
