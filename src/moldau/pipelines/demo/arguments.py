"""The arguments that both programs of the demo take: the brokers, and settings of Kafka's clients."""

import argparse
import os
from pathlib import Path

from moldau.base.settings import parse_properties


def add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument(
        "--command-config",
        type=Path,
        default=os.environ.get("MOLDAU_COMMAND_CONFIG") or None,
        metavar="FILE",
        help="a properties file with settings of Kafka's clients",
    )
    parser.add_argument("-X", dest="properties", action="append", default=[], metavar="NAME=VALUE")


def client_settings(given: argparse.Namespace) -> dict[str, str]:
    """The settings of Kafka's clients that were given; ValueError or OSError where they cannot be read."""
    settings: dict[str, str] = {}
    if given.command_config is not None:
        settings = parse_properties(Path(given.command_config).read_text("utf-8"))
    for text in given.properties:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"-X {text!r}: it has the form NAME=VALUE")
        settings[name] = value
    return settings
