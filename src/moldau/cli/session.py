"""The options that all commands share, and the connection to a cluster that they describe.

    @click.command()
    @cluster_command_options
    def command(as_json: bool) -> None:
        async def work(cluster: Cluster) -> int: ...
        found = connected(work)

The options include ``--profile``, ``--command-config`` and ``-X``, so that every command reaches a cluster
with TLS or SASL; ``connected`` finds their values, the brokers and the timeout in click's context.

Invariant: only here an error of the client becomes one line with a next step. asyncio and the client are
imported when a command runs, not before.
"""

import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from moldau.base.escaping import escaped

if TYPE_CHECKING:
    from moldau.client.transport.cluster import Cluster
    from moldau.protocol.errors import KafkaError

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
#: 0 is any free port.
PORT = click.IntRange(0, 65535)
COMPRESSION = click.Choice(["none", "gzip", "snappy", "lz4", "zstd"])

#: What to do next, by the name of the error code.
_NEXT_STEPS = {
    "BROKER_NOT_AVAILABLE": "start one with 'moldau broker', or give another address with -b host:port",
    "UNKNOWN_TOPIC_OR_PARTITION": "'moldau topics list' shows what there is",
    "TOPIC_ALREADY_EXISTS": "'moldau topics describe NAME' shows it; --if-not-exists is content with that",
    "INVALID_REPLICATION_FACTOR": "a topic cannot have more replicas than the cluster has brokers",
    "INVALID_CONFIG": "'moldau configs get TOPIC --all' lists the names and values in use",
    "OFFSET_OUT_OF_RANGE": "'moldau offsets TOPIC' shows where the partitions begin and end",
    "UNSUPPORTED_VERSION": "the cluster is too old or too new: see 'moldau kafka-broker-api-versions'",
    "GROUP_ID_NOT_FOUND": "'moldau groups list' shows what there is",
    "UNKNOWN_MEMBER_ID": "the group has members: stop them first",
    "TOPIC_AUTHORIZATION_FAILED": "ask the administrator of the cluster for access",
    "CLUSTER_AUTHORIZATION_FAILED": "ask the administrator of the cluster for access",
    "MESSAGE_TOO_LARGE": "raise max.message.bytes: 'moldau configs set TOPIC max.message.bytes=...'",
    "SASL_AUTHENTICATION_FAILED": "give the security settings with --command-config FILE or -X NAME=VALUE",
    "REQUEST_TIMED_OUT": "try again, or with a longer --timeout",
}

#: Under these names click's context keeps the values of the options below.
_COMMAND_CONFIG = "moldau.command_config"
_PROPERTIES = "moldau.client_properties"
_PROFILE = "moldau.profile"
_SERVERS = "moldau.bootstrap_server"
_TIMEOUT = "moldau.timeout_seconds"


def add_options(*options: Callable[[_F], _F]) -> Callable[[_F], _F]:
    """Several options as one decorator; ``--help`` shows them in this order."""

    def add(command: _F) -> _F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def log_level_option(default: str, says: str | None = None) -> Callable[[_F], _F]:
    return click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default=default,
        show_default=True,
        help=says,
    )


def store_in_context(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def store(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        context.meta[name] = value

    return store


_command_config_option = click.option(
    "--command-config",
    type=FILE,
    envvar="MOLDAU_COMMAND_CONFIG",
    show_envvar=True,
    metavar="FILE",
    expose_value=False,
    callback=store_in_context(_COMMAND_CONFIG),
    help="A properties file with settings of Kafka's clients: security.protocol, sasl.*, ssl.* …",
)
_property_option = click.option(
    "-X",
    "--command-property",
    multiple=True,
    metavar="NAME=VALUE",
    expose_value=False,
    callback=store_in_context(_PROPERTIES),
    help="One such setting, instead of the file's; repeatable.",
)


_profile_option = click.option(
    "--profile",
    envvar="MOLDAU_PROFILE",
    show_envvar=True,
    metavar="NAME",
    is_eager=True,  # it is known when the address of the cluster is
    expose_value=False,
    callback=store_in_context(_PROFILE),
    help="A cluster of 'moldau profile add', with its address and secrets.",
)


def client_settings_options(command: _F) -> _F:
    """Adds ``--profile``, ``--command-config`` and ``-X``, whose values ``client_settings`` reads."""
    return _profile_option(_command_config_option(_property_option(command)))


def _of_profile(context: click.Context | None) -> dict[str, str]:
    name = None if context is None else context.meta.get(_PROFILE)
    if name is None:
        return {}
    from moldau.cli import profiles

    try:
        return profiles.load(name, profiles.directory())
    except ValueError as error:
        raise click.UsageError(f"--profile {name}: {error}") from None


def servers_of_profile(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """What an option of brokers is by ``callback``: the profile's, unless the command names others."""
    if parameter.name is not None and context.get_parameter_source(parameter.name) is ParameterSource.DEFAULT:
        return _of_profile(context).get("bootstrap.servers", value)
    return value


def client_settings() -> dict[str, str]:
    """The settings of Kafka's clients that the running command was given."""
    context = click.get_current_context(silent=True)
    given: dict[str, Any] = {} if context is None else context.meta
    settings = _of_profile(context)
    settings.pop("bootstrap.servers", None)
    path: Path | None = given.get(_COMMAND_CONFIG)
    if path is not None:
        from moldau.base.settings import parse_properties

        try:
            settings |= parse_properties(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise click.UsageError(f"--command-config {path}: {error}") from error
    settings |= pairs(given.get(_PROPERTIES, ()), "-X")
    if settings.get("security.protocol", "").upper().startswith("SASL"):
        settings = _of_jaas_file() | settings
    return settings


def _of_jaas_file() -> dict[str, str]:
    """The login of the JAAS file that KAFKA_OPTS names, as scripts and books of Kafka give it."""
    from moldau.security.jaas import client_setting, file_of_options

    path = file_of_options(os.environ.get("KAFKA_OPTS", ""))
    if path is None:
        return {}
    try:
        line = client_setting(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise click.UsageError(f"{path}, which KAFKA_OPTS names: {reason}") from None
    return {} if line is None else {"sasl.jaas.config": line}


def client_settings_arguments() -> tuple[str, ...]:
    """The same options, as arguments for a program that the running command starts."""
    given = click.get_current_context().meta
    path: Path | None = given.get(_COMMAND_CONFIG)
    found = [] if path is None else ["--command-config", str(path.absolute())]
    if given.get(_PROFILE) is not None:
        found += ["--profile", given[_PROFILE]]
    for text in given.get(_PROPERTIES, ()):
        found += ["-X", text]
    return tuple(found)


def cluster_options(settings: Mapping[str, str], client_id: str) -> dict[str, Any]:
    """Settings of Kafka's clients as options of ``Cluster``; one that is not supported is wrong usage."""
    from moldau.cli.kafka_tools.framework import bootstrap
    from moldau.cli.kafka_tools.framework.exceptions import ToolError

    try:
        return bootstrap.cluster_options(settings, client_id)
    except ToolError as error:
        raise click.UsageError(error.message) from error


def _store_servers(context: click.Context, parameter: click.Parameter, value: str) -> str | None:
    servers = context.meta[_SERVERS] = servers_of_profile(context, parameter, value)
    return servers


def _servers_option(*, is_argument: bool) -> Callable[[_F], _F]:
    return click.option(
        "-b",
        "--bootstrap-server",
        "--bootstrap-servers",
        "bootstrap_server",
        envvar="MOLDAU_BOOTSTRAP_SERVERS",
        default="127.0.0.1:9092",
        show_default=True,
        show_envvar=True,
        expose_value=is_argument,
        callback=_store_servers,
        metavar="HOST:PORT[,…]",
        help="One or more brokers of the cluster; Apache Kafka will do.",
    )


#: Adds ``-b``, for a command that hands the address on.
servers_option = _servers_option(is_argument=True)
_timeout_option = click.option(
    "--timeout",
    "timeout_seconds",
    type=click.FloatRange(min=0.001),
    default=30.0,
    show_default=True,
    expose_value=False,
    callback=store_in_context(_TIMEOUT),
    metavar="SECONDS",
    help="How long to wait for an answer.",
)


def bootstrap_option(command: _F) -> _F:
    """Adds ``servers_option`` and the client's settings, for a command that starts what uses the cluster."""
    return servers_option(client_settings_options(command))


def connection_options(command: _F) -> _F:
    """Adds what ``connected`` reads: brokers, ``--timeout`` and the client's settings."""
    return _timeout_option(_servers_option(is_argument=False)(client_settings_options(command)))


def bootstrap_server() -> str:
    """The brokers that the running command was given."""
    servers: str = click.get_current_context().meta[_SERVERS]
    return servers


def timeout_ms() -> int:
    """How long the running command waits for an answer."""
    seconds: float = click.get_current_context().meta[_TIMEOUT]
    return max(1, round(seconds * 1000))


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs, not a table.")


def cluster_command_options(command: _F) -> _F:
    """Adds the options of every command that asks a cluster: ``--json`` and the connection."""
    return json_option(connection_options(command))


def pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """Reads ``name=value`` arguments; wrong ones are wrong usage."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f"{option} {text!r}: it has the form NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def connected(work: Callable[["Cluster"], Awaitable[_T]]) -> _T:
    """Runs ``work`` with the cluster of ``connection_options``; an error becomes one line and exit code 1."""
    from moldau.client.transport.cluster import Cluster

    options = cluster_options(client_settings(), "moldau-cli")

    async def connect_and_work() -> _T:
        patience = timeout_ms()
        timeouts = {
            "request_timeout_ms": patience,
            "connect_timeout_ms": min(patience, 10_000),
            "api_timeout_ms": patience,
        }
        async with await Cluster.open(bootstrap_server(), **(timeouts | options)) as cluster:
            return await work(cluster)

    return run(connect_and_work())


def run(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine on the fastest event loop; errors become ``click.ClickException``."""
    from moldau.protocol.errors import KafkaError

    try:
        return _fastest_loop()(coroutine)
    except KafkaError as error:
        raise click.ClickException(escaped(explain(error))) from error
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None  # the shell's exit code for SIGINT


@contextmanager
def needs(what: str, extra: str) -> Iterator[None]:
    """Around imports: a package that is not installed becomes one line that names the extra with it."""
    try:
        yield
    except ImportError as error:
        raise click.ClickException(
            f"{what} needs {error.name}. Next: pip install 'moldau[{extra}]'"
        ) from error


def explain(error: "KafkaError") -> str:
    """An error and the next step, in one line."""
    text = " ".join((error.message or error.code.name).split()).rstrip(".")
    if error.message and error.code.name not in (*text.split(), "BROKER_NOT_AVAILABLE"):
        text += f" ({error.code.name})"
    step = _NEXT_STEPS.get(error.code.name)
    return f"{text}{'' if text.endswith('?') else '.'} Next: {step}" if step else text


def _fastest_loop() -> Callable[[Coroutine[Any, Any, _T]], _T]:
    try:
        import uvloop

        return uvloop.run
    except ImportError:  # Windows
        import asyncio

        return asyncio.run
