"""``moldau broker``: one broker in the foreground.

Options become properties for ``moldau.node``, and errors at the start become one line with a next step.

Invariant: the ready line is printed when the broker accepts connections, not before.
"""

import errno
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moldau.cli.output import log_to_stderr
from moldau.cli.session import FILE, PORT, log_level_option, pairs

if TYPE_CHECKING:
    from moldau.node import Node

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092
DEFAULT_DATA_DIRECTORY = "./data"

_LOG_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"

_VERIFY_AND_REPAIR = (
    "'moldau log verify DIR' looks at the rest, 'moldau log repair DIR --dry-run' shows what can be mended; "
    "else restore the file"
)
#: What to do next, by the name of the error's class: importing the classes would make the start slower.
_NEXT_STEPS = {
    "DirectoryInUseError": "stop the other broker, or give this one another --data-dir",
    "IdentityError": "give the --data-dir of this node and cluster, or an empty one",
    "CorruptFileError": _VERIFY_AND_REPAIR,
    "CorruptLogError": _VERIFY_AND_REPAIR,
    "LostFileError": "",  # its messages say what to do
    "StorageError": "'moldau doctor --data-dir DIR' shows what is wrong",
    "MetadataError": "",  # its messages say what to do
    "SettingError": "correct the setting in the file, or override it with --set NAME=VALUE",
}

#: What the system's error means here, and what to do next.
_OS_ERRORS = {
    errno.EADDRINUSE: ("the port is in use", "stop what listens there, or try --port 0 for a free one"),
    errno.EADDRNOTAVAIL: ("the address is not one of this machine", "choose another --host"),
    errno.EACCES: ("permission denied", "choose another --data-dir, or a --port above 1023"),
    errno.EPERM: ("not permitted", "choose another --data-dir"),
    errno.ENOSPC: ("the disk is full", "make room, or choose another --data-dir"),
    errno.EROFS: ("the file system is read-only", "choose another --data-dir"),
    errno.ENOTDIR: ("not a directory", "choose another --data-dir"),
    errno.EEXIST: ("a file is in the way", "choose another --data-dir"),
    errno.EMFILE: ("too many open files", "raise the limit (ulimit -n)"),
}


@click.command()
@click.option("--port", type=PORT, help=f"Default {DEFAULT_PORT}; 0 takes a free one.")
@click.option("--host", help=f"The address to listen on; default {DEFAULT_HOST}, this machine only.")
@click.option(
    "--data-dir",
    "data_dirs",
    multiple=True,
    metavar="DIR",
    help=f"Where the data is; repeatable, the first holds the metadata. Default {DEFAULT_DATA_DIRECTORY}.",
)
@click.option("--config", "config_file", type=FILE, metavar="FILE", help="A Kafka server.properties file.")
@click.option(
    "--metrics-port",
    type=PORT,
    help="Where /metrics, /jolokia, /healthz and /readyz are; 0 takes a free port. Default: nowhere.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    metavar="N",
    help="Use N cores: N brokers of these settings, with ids, ports and directories that follow each other.",
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting; repeatable.")
@log_level_option("info")
def broker(
    port: int | None,
    host: str | None,
    data_dirs: tuple[str, ...],
    config_file: Path | None,
    metrics_port: int | None,
    processes: int,
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
      moldau broker --metrics-port 9404
      moldau broker --processes 4 --port 9092
    """
    from moldau.base.clock import SystemClock

    clock = SystemClock()
    began = clock.monotonic()
    log_to_stderr(log_level, _LOG_FORMAT)
    properties = jaas_file_settings() | ({} if config_file is None else read_properties(config_file))
    metrics = {} if metrics_port is None else {"moldau.metrics.port": str(metrics_port)}
    overrides = metrics | given_settings(properties, port, host, data_dirs, pairs(settings, "--set"))
    if processes > 1:
        from moldau.cli.session import run
        from moldau.cli.up.broker_processes import run_processes

        run(run_processes(processes, config_file, properties, overrides, log_level))
        return

    def ready(node: "Node") -> None:
        with suppress(OSError):  # what is not seen on a full disk is true all the same
            click.echo(ready_line(node, clock.monotonic() - began))

    try:
        from moldau import node

        code = node.run(properties, overrides, ready=ready)
    except Exception as error:
        explanation = explain_start(error)
        if explanation is None:
            raise
        raise click.ClickException(explanation) from error
    raise SystemExit(code)


def read_properties(path: Path) -> dict[str, str]:
    """The settings of a server.properties file."""
    from moldau.base.settings import parse_properties

    try:
        return parse_properties(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{path} cannot be read: {error}. Next: correct the file") from error


def jaas_file_settings() -> dict[str, str]:
    """The logins of the JAAS file that KAFKA_OPTS names, as scripts and books of Kafka give it."""
    from moldau.security.jaas import file_of_options, server_settings, zookeeper_settings

    options = os.environ.get("KAFKA_OPTS", "")
    path = file_of_options(options)
    if path is None:
        return {}
    try:
        text = Path(path).read_text("utf-8")
        return server_settings(text) | zookeeper_settings(text, options)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise click.ClickException(f"{path}, which KAFKA_OPTS names: {reason}. Next: correct it") from None


def given_settings(
    properties: dict[str, str],
    port: int | None,
    host: str | None,
    data_dirs: Sequence[str],
    settings: dict[str, str],
) -> dict[str, str]:
    """The settings of the command line, which override the file; ``--set`` overrides other options."""
    found: dict[str, str] = {}
    if port is not None or host is not None or not _names(properties, "listeners"):
        found["listeners"] = listener(host or DEFAULT_HOST, DEFAULT_PORT if port is None else port)
        if "advertised.listeners" in properties:
            found["advertised.listeners"] = found["listeners"]  # those of the file belong to its listeners
    if data_dirs:
        found["log.dirs"] = ",".join(data_dirs)
    elif not _names(properties, "log.dirs", "log.dir"):
        found["log.dirs"] = DEFAULT_DATA_DIRECTORY
    return found | settings


def _names(properties: dict[str, str], *names: str) -> bool:
    return any(properties.get(name) for name in names)


def listener(host: str, port: int) -> str:
    return f"PLAINTEXT://[{host}]:{port}" if ":" in host else f"PLAINTEXT://{host}:{port}"


def ready_line(node: "Node", seconds: float) -> str:
    """The line that people, and scripts, wait for."""
    where = ",".join(str(each) for each in node.listeners)
    data = ",".join(node.settings.log_dirs)
    cluster_id = node.services.cluster_id
    address = None if node.monitoring is None else node.monitoring.address
    metrics = "" if address is None else f", metrics http://{address[0]}:{address[1]}/metrics"
    details = f"node {node.node_id}, cluster {cluster_id}, data {data}{metrics}, {seconds:.2f} s"
    return f"moldau ready: {where} ({details})"


def explain_start(error: Exception) -> str | None:
    """Why the broker did not start and what to do, in one line; None for an unexpected error (a bug)."""
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, OSError) and error.errno in _OS_ERRORS:
        meaning, step = _OS_ERRORS[error.errno]
        about = f"{error.filename}: {meaning}" if error.filename else f"{meaning} ({text})"
        return f"{about}. Next: {step}"
    if isinstance(error, socket.gaierror):
        return f"the name of the host to listen on is not known here ({text}). Next: choose another --host"
    for kind in type(error).__mro__:
        if kind.__name__ in _NEXT_STEPS:
            step = _NEXT_STEPS[kind.__name__]
            return f"{text}. Next: {step}" if step else text
    if isinstance(error, OSError):
        return f"{text}. Next: see whether 'moldau doctor --data-dir DIR' finds a reason"
    return None
