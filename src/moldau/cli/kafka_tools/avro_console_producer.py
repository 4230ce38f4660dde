"""``moldau kafka-avro-console-producer``: lines of JSON become records with Avro; see ``typed_console``."""

from functools import partial

from moldau.cli.kafka_tools.framework.tool import run_standard
from moldau.cli.kafka_tools.typed_console import AVRO_PRODUCER as TOOL
from moldau.cli.kafka_tools.typed_console import produce

main = partial(produce, "AVRO", TOOL)


def run(arguments: list[str]) -> int:
    return run_standard(TOOL, main, arguments)
