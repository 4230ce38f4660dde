"""``moldau kafka-avro-console-consumer``: records are printed as JSON with Avro; see ``typed_console``."""

from functools import partial

from moldau.cli.kafka_tools.framework.tool import run_standard
from moldau.cli.kafka_tools.typed_console import AVRO_CONSUMER as TOOL
from moldau.cli.kafka_tools.typed_console import consume

main = partial(consume, "AVRO", TOOL)


def run(arguments: list[str]) -> int:
    return run_standard(TOOL, main, arguments)
