"""``moldau kafka-json-schema-console-consumer``: prints records with JSON Schema; see ``typed_console``."""

from functools import partial

from moldau.cli.kafka_tools.framework.tool import run_standard
from moldau.cli.kafka_tools.typed_console import JSON_CONSUMER as TOOL
from moldau.cli.kafka_tools.typed_console import consume

main = partial(consume, "JSON", TOOL)


def run(arguments: list[str]) -> int:
    return run_standard(TOOL, main, arguments)
