"""The services that ``moldau up`` starts: broker, schema registry, REST proxy, console, Connect, as commands.

Nothing is started here. Ports and installed packages are checked first, so that a taken port or a missing
package is reported in one sentence, and not by a service that dies.
"""

import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import click

from moldau.cli.commands.services.broker import DEFAULT_DATA_DIRECTORY, DEFAULT_HOST, DEFAULT_PORT
from moldau.cli.output import note
from moldau.cli.up.processes import Service

DEFAULT_REGISTRY_PORT = 8081
DEFAULT_REST_PORT = 8082
DEFAULT_CONSOLE_PORT = 8080
DEFAULT_CONNECT_PORT = 8083
#: Ports that the console tries after the default one.
_NEXT_PORTS = 20

#: The ready lines of the services; the group is the URL.
REGISTRY_READY = r"moldau registry ready: (\S+)"
REST_READY = r"moldau rest ready: (\S+)"
CONSOLE_READY = r"moldau console ready: (\S+)"
CONNECT_READY = r"moldau connect ready: (\S+)"

#: Modules that the extras ``registry``, ``rest`` and ``console`` install.
_REGISTRY_MODULES = ("grpc_tools", "jsonschema", "starlette", "uvicorn")
_REST_MODULES = ("httpx", "jsonschema_rs", "starlette", "uvicorn")
_CONSOLE_MODULES = ("starlette", "uvicorn")
_CONNECT_MODULES = ("httpx", "starlette", "uvicorn")
#: A listener on every address is reached at this one from the same machine.
_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of ``moldau up``; a port of None is the default one."""

    port: int | None = None
    host: str | None = None
    data_dirs: tuple[str, ...] = ()
    config_file: Path | None = None
    settings: tuple[str, ...] = ()
    registry_port: int | None = None
    with_registry: bool = True
    log_level: str = "info"
    #: How the broker's clients reach it: ``--command-config`` and ``-X`` for their command lines.
    client_arguments: tuple[str, ...] = ()
    #: How many brokers, and the ZooKeeper that keeps their metadata; without it they share a directory.
    brokers: int = 1
    zookeeper: str | None = None
    rest_port: int | None = None
    with_rest: bool = True
    console_port: int | None = None
    with_console: bool = True
    #: Of the first broker, the others follow; a free one for each where it is None.
    metrics_port: int | None = None
    with_connect: bool = False
    connect_port: int | None = None
    #: The same as settings, for services that get them in a file.
    client_settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def security_protocol(self) -> str:
        """Of the listener that the client's settings are for."""
        return self.client_settings.get("security.protocol", "PLAINTEXT").strip().upper()

    @property
    def directory(self) -> Path:
        """The data directory that also gets the logs of the services, and the data of the demo."""
        return Path(self.data_dirs[0] if self.data_dirs else DEFAULT_DATA_DIRECTORY)

    @property
    def log_directory(self) -> Path:
        return self.directory / "up"


def moldau_command(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "moldau", *arguments)


def broker_service(options: UpOptions, *, allow_free_port: bool) -> Service:
    """The broker. A port that is in use is an error, unless ``allow_free_port`` and the user named none."""
    host = options.host or DEFAULT_HOST
    listener: list[str] = []
    # The listeners of a settings file are used, unless the command line says otherwise.
    if options.config_file is None or options.port is not None or options.host is not None:
        port = chosen_port(host, options.port, DEFAULT_PORT, "--port", allow_free_port)
        listener = ["--host", host, "--port", str(port)]
    settings = (f"zookeeper.connect={options.zookeeper}",) if options.zookeeper else ()
    return _broker("broker", options, [*listener, *_metrics(options, 0)], options.data_dirs, settings)


def cluster_services(options: UpOptions) -> list[Service]:
    """Brokers 1, 2, 3, … on ports that follow each other, each with a directory of its own.

    They are one cluster by the metadata that they share: in ZooKeeper, or in the directory ``metadata``.
    """
    host = options.host or DEFAULT_HOST
    first = DEFAULT_PORT if options.port is None else options.port
    shared = (
        f"zookeeper.connect={options.zookeeper}"
        if options.zookeeper
        else f"moldau.metadata.dir={options.directory / 'metadata'}"
    )
    services = []
    for number in range(1, options.brokers + 1):
        port = chosen_port(host, first + number - 1 if first else 0, DEFAULT_PORT, "--port", False)
        directories = [
            str(Path(each) / f"broker-{number}") for each in options.data_dirs or (str(options.directory),)
        ]
        settings = (f"node.id={number}", shared)
        listener = ["--host", host, "--port", str(port), *_metrics(options, number - 1)]
        services.append(_broker(f"broker-{number}", options, listener, directories, settings))
    return services


def _metrics(options: UpOptions, number: int) -> list[str]:
    """Where a broker shows its metrics."""
    if options.config_file is not None and options.metrics_port is None:
        return []  # the file says it, or not
    first = options.metrics_port or 0
    return ["--metrics-port", str(first + number if first else 0)]


def _broker(
    name: str,
    options: UpOptions,
    listener: Sequence[str],
    directories: Sequence[str],
    settings: Sequence[str],
) -> Service:
    arguments = ["broker", "--log-level", options.log_level, *listener]
    if options.config_file is not None:
        arguments += ["--config", str(options.config_file)]
    for directory in directories:
        arguments += ["--data-dir", directory]
    for setting in (*settings, *options.settings):
        arguments += ["--set", setting]
    return Service(name, moldau_command(*arguments), broker_ready(options.security_protocol))


def broker_ready(security_protocol: str) -> str:
    """A pattern for the broker's ready line: the address of a listener with this protocol, and its
    metrics.
    """
    return rf"moldau ready: (?:\S*,)?{security_protocol}://(\S+?)[,\s](?:.*, metrics (http:\S+?)[,\s])?"


def registry_service(options: UpOptions, bootstrap_servers: str, *, allow_free_port: bool) -> Service:
    host = options.host or DEFAULT_HOST
    port = chosen_port(host, options.registry_port, DEFAULT_REGISTRY_PORT, "--registry-port", allow_free_port)
    arguments = ("registry", "--host", host, "--port", str(port), "-b", bootstrap_servers)
    return Service("registry", moldau_command(*arguments, *options.client_arguments), REGISTRY_READY)


def planned_url(registry: Service) -> str | None:
    """Where a registry that is not started yet will be reached; None where it takes a free port."""
    host, port = (registry.command[registry.command.index(name) + 1] for name in ("--host", "--port"))
    if port == "0":
        return None
    return "http://" + local_address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def rest_service(options: UpOptions, bootstrap_servers: str, registry_url: str | None) -> Service:
    """The REST proxy. Where nobody named its port and the default one is in use, it takes a free one."""
    host = options.host or DEFAULT_HOST
    if options.rest_port is None:
        port: tuple[str, ...] = ("--port", str(DEFAULT_REST_PORT), "--or-free-port")
    else:
        wanted = chosen_port(host, options.rest_port, DEFAULT_REST_PORT, "--rest-port", False)
        port = ("--port", str(wanted))
    registry = () if registry_url is None else ("--registry-url", registry_url)
    arguments = ("rest", "--host", host, *port, "-b", bootstrap_servers, *registry)
    return Service("rest", moldau_command(*arguments, *options.client_arguments), REST_READY)


def why_no_rest(options: UpOptions) -> str | None:
    """Why the REST proxy is not started; None if it can be."""
    if not options.with_rest:
        return "left out (--no-rest)"
    if any(find_spec(name) is None for name in _REST_MODULES):
        return "not installed: pip install 'moldau[rest]'"
    return None


def console_service(options: UpOptions, bootstrap_servers: str, registry: str | None) -> Service:
    """The console: on this machine only, whatever the broker listens on, as it asks nobody who they are."""
    host = options.host if options.host in ("localhost", "::1") else DEFAULT_HOST
    if options.console_port is None:
        port = next_free_port(host, DEFAULT_CONSOLE_PORT, "--console-port")
    else:
        port = chosen_port(host, options.console_port, DEFAULT_CONSOLE_PORT, "--console-port", False)
    arguments = ["console", "--host", host, "--port", str(port), "-b", bootstrap_servers]
    if registry is not None:
        arguments += ["--registry", registry]
    return Service("console", moldau_command(*arguments, *options.client_arguments), CONSOLE_READY)


def why_no_console(options: UpOptions) -> str | None:
    """Why the console is not started; None if it can be."""
    if not options.with_console:
        return "left out (--no-console)"
    if any(find_spec(name) is None for name in _CONSOLE_MODULES):
        return "not installed: pip install 'moldau[console]'"
    return None


def connect_service(options: UpOptions, bootstrap_servers: str) -> Service:
    """A worker of Connect, with a file of settings beside the logs: on this machine only, as it asks nobody
    who they are."""
    host = options.host if options.host in ("localhost", "::1") else DEFAULT_HOST
    if options.connect_port is None:
        port = next_free_port(host, DEFAULT_CONNECT_PORT, "--connect-port")
    else:
        port = chosen_port(host, options.connect_port, DEFAULT_CONNECT_PORT, "--connect-port", False)
    json = "org.apache.kafka.connect.json.JsonConverter"
    settings = {
        **options.client_settings,
        "bootstrap.servers": bootstrap_servers,
        "group.id": "moldau-connect",
        "key.converter": json,
        "value.converter": json,
        "offset.flush.interval.ms": "1000",
        "listeners": f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}",
    }
    for kind in ("config", "offset", "status"):
        topic = "configs" if kind == "config" else "offsets" if kind == "offset" else kind
        settings[f"{kind}.storage.topic"] = f"connect-{topic}"
        settings[f"{kind}.storage.replication.factor"] = str(min(options.brokers, 3))
    file = options.log_directory / "connect.properties"
    file.touch(mode=0o600)
    file.write_text("".join(f"{name}={_escaped(value)}\n" for name, value in settings.items()), "utf-8")
    return Service("connect", moldau_command("connect", str(file)), CONNECT_READY)


def _escaped(value: str) -> str:
    """For a file of properties; one line."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def why_no_connect() -> str | None:
    """Why no worker of Connect is started; None if it can be."""
    if any(find_spec(name) is None for name in _CONNECT_MODULES):
        return "not installed: pip install 'moldau[connect]'"
    return None


def next_free_port(host: str, default: int, option: str) -> int:
    """The default port, or one of those that follow it, or any (0)."""
    for port in range(default, default + _NEXT_PORTS):
        if not is_in_use(host, port):
            if port != default:
                note(f"port {default} of {host} is in use: {port} is taken ({option} chooses one)")
            return port
    return 0


def why_no_registry(options: UpOptions) -> str | None:
    """Why the registry is not started; None if it can be."""
    if not options.with_registry:
        return "left out (--no-registry)"
    if any(find_spec(name) is None for name in _REGISTRY_MODULES):
        return "not installed: pip install 'moldau[registry]'"
    return None


def local_address(listener: str) -> str:
    """How this machine reaches a listener, from the address that the broker prints."""
    host, _, port = listener.rpartition(":")
    return f"{_EVERY_ADDRESS.get(host, host)}:{port}"


def chosen_port(host: str, wanted: int | None, default: int, option: str, allow_free_port: bool) -> int:
    """The port to listen on: the user's, the default, or 0 (any free one) where the default is in use."""
    port = default if wanted is None else wanted
    if port == 0 or not is_in_use(host, port):
        return port
    if wanted is None and allow_free_port:
        note(f"port {port} of {host} is in use: a free one is taken ({option} chooses one)")
        return 0
    raise click.ClickException(
        f"port {port} of {host} is in use. Next: stop what listens there, or choose another with "
        f"{option} (0 takes a free one)"
    )


def is_in_use(host: str, port: int) -> bool:
    """Whether something listens there; other problems of an address are reported by the service."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        import errno

        return error.errno == errno.EADDRINUSE
    return False
