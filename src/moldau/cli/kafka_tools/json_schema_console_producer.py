"""``moldau kafka-json-schema-console-producer``: JSON Schema from lines; see ``typed_console``."""

from functools import partial

from moldau.cli.kafka_tools.framework.tool import run_standard
from moldau.cli.kafka_tools.typed_console import JSON_PRODUCER as TOOL
from moldau.cli.kafka_tools.typed_console import produce

main = partial(produce, "JSON", TOOL)


def run(arguments: list[str]) -> int:
    return run_standard(TOOL, main, arguments)
