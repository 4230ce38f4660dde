"""``moldau broker``: one broker in the foreground.

Law: from options to properties, and from what can go wrong at the start to one line with a next step. The broker
itself is ``moldau.node``'s. The ready line is printed when the broker accepts connections, not before.
"""

import errno
import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moldau.cli.session import pairs

if TYPE_CHECKING:
    from moldau.node import Node

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092
DEFAULT_DATA_DIRECTORY = "./data"

_LOG_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"

#: What to do next, by the name of the error's class: the rooms that raise them are not the command line's to know.
_NEXT_STEPS = {
    "DirectoryInUseError": "stop the other broker, or give this one another --data-dir",
    "IdentityError": "give the --data-dir of this node and cluster, or an empty one",
    "CorruptFileError": "'moldau doctor --data-dir DIR' shows what is damaged; restore the file or start empty",
    "CorruptLogError": "'moldau doctor --data-dir DIR' shows what is damaged; restore it or start empty",
    "StorageError": "'moldau doctor --data-dir DIR' shows what is wrong",
    "MetadataError": "'moldau doctor --data-dir DIR' shows what is wrong; restore metadata.sqlite or start empty",
    "SettingError": "correct the setting in the file, or override it with --set NAME=VALUE",
}

_OS_ERRORS = {
    errno.EADDRINUSE: ("the port is in use", "stop what listens there, or choose another: --port 0 takes a free one"),
    errno.EADDRNOTAVAIL: ("the address is not one of this machine", "choose another --host"),
    errno.EACCES: ("permission denied", "run as a user who may, or choose another --data-dir or a --port above 1023"),
    errno.ENOSPC: ("the disk is full", "make room, or choose another --data-dir"),
    errno.EROFS: ("the file system is read-only", "choose another --data-dir"),
    errno.ENOTDIR: ("not a directory", "choose another --data-dir"),
    errno.EMFILE: ("too many open files", "raise the limit (ulimit -n)"),
}


@click.command(short_help="Run a broker in the foreground.")
@click.option("--port", type=click.IntRange(0, 65535), help=f"Default {DEFAULT_PORT}; 0 takes a free one.")
@click.option("--host", help=f"The address to listen on; default {DEFAULT_HOST}, this machine only.")
@click.option(
    "--data-dir",
    "data_dirs",
    multiple=True,
    metavar="DIR",
    help=f"Where the data is; repeatable, the first holds the metadata. Default {DEFAULT_DATA_DIRECTORY}.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A Kafka server.properties file.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting; repeatable.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
def broker(
    port: int | None,
    host: str | None,
    data_dirs: tuple[str, ...],
    config_file: Path | None,
    settings: tuple[str, ...],
    log_level: str,
) -> None:
    """Run a broker in the foreground until Ctrl-C or SIGTERM.

    \b
    Examples:
      moldau broker
      moldau broker --port 9092 --data-dir ./data
      moldau broker --port 0 --data-dir /tmp/try --set auto.create.topics.enable=false
      moldau broker --config server.properties --set num.partitions=6
    """
    from moldau.base.clock import SystemClock

    clock = SystemClock()
    began = clock.monotonic()
    logging.basicConfig(level=log_level.upper(), format=_LOG_FORMAT, datefmt="%Y-%m-%d %H:%M:%S")
    properties = {} if config_file is None else read_properties(config_file)
    overrides = given_settings(properties, port, host, data_dirs, pairs(settings, "--set"))

    def ready(node: "Node") -> None:
        click.echo(ready_line(node, clock.monotonic() - began))

    try:
        from moldau import node

        code = node.run({**properties, **overrides}, ready)
    except (OSError, ValueError, RuntimeError, Exception) as error:
        raise click.ClickException(explain_start(error)) from error
    raise SystemExit(code)
