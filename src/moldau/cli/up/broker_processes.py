"""``moldau broker --processes N``: N brokers of one node's settings, started, logged and stopped together.

One broker uses one core. What has to differ between them is derived: ids, ports and directories that follow
each other; everything else is the node's. Their metadata is where the settings say, or in a directory beside
theirs.

Invariant: one command is one log (their lines, with the id in front) and one stop. A broker that dies is
started again; a directory that belongs to a single broker is never taken over.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import click

from moldau.base.clock import SystemClock
from moldau.base.escaping import escaped_lines
from moldau.cli.up.processes import Processes, Service, ServiceFailed
from moldau.cli.up.services import moldau_command
from moldau.cli.up.terminal import stop_signal

_READY = r"moldau ready: (\S+) \("
_DEFAULT_ID = 1
_ID_NAMES = ("node.id", "broker.id")
_DIRECTORY_NAMES = ("log.dirs", "log.dir")
_PORT_NAMES = ("listeners", "advertised.listeners")
_METRICS_PORT = "moldau.metrics.port"
#: Given again for each broker, under one of their names.
_DERIVED = frozenset((*_ID_NAMES, *_DIRECTORY_NAMES))


class BrokerProcess(NamedTuple):
    """One of the brokers, and the settings that only it has."""

    broker_id: int
    settings: dict[str, str]


def derive(count: int, given: Mapping[str, str]) -> list[BrokerProcess]:
    """The brokers of a node with these settings; the first one has the node's id and ports."""
    first_id = int(next((given[name] for name in _ID_NAMES if given.get(name)), _DEFAULT_ID))
    roots = next(given[name] for name in _DIRECTORY_NAMES if given.get(name)).split(",")
    shared = {}
    if not given.get("zookeeper.connect") and not given.get("moldau.metadata.dir"):
        shared["moldau.metadata.dir"] = f"{roots[0].strip()}/metadata"
    step = len(given["listeners"].split(","))
    derived = []
    for index in range(count):
        broker_id = first_id + index
        names = [name for name in _ID_NAMES if given.get(name)] or [_ID_NAMES[0]]
        settings = shared | {
            **dict.fromkeys(names, str(broker_id)),
            "log.dirs": ",".join(f"{root.strip()}/broker-{broker_id}" for root in roots),
        }
        for name in _PORT_NAMES:
            if given.get(name):
                settings[name] = ",".join(_moved(each, index * step) for each in given[name].split(","))
        if given.get(_METRICS_PORT):
            settings[_METRICS_PORT] = str(_port(int(given[_METRICS_PORT]), index))
        derived.append(BrokerProcess(broker_id, settings))
    return derived


def _moved(listener: str, by: int) -> str:
    """The listener on a later port; 0 stays any free one."""
    head, _, port = listener.strip().rpartition(":")
    return f"{head}:{_port(int(port), by)}" if port.isdecimal() else listener


def _port(port: int, by: int) -> int:
    return port + by if port else 0


async def run_processes(
    count: int,
    config_file: Path | None,
    properties: Mapping[str, str],
    overrides: Mapping[str, str],
    log_level: str,
) -> None:
    """Runs until Ctrl-C or SIGTERM."""
    clock = SystemClock()
    began = clock.monotonic()
    brokers = derive(count, {**properties, **overrides})
    root = Path(brokers[0].settings["log.dirs"].split(",")[0]).parent
    if (root / "meta.properties").exists():
        raise click.ClickException(
            f"{root} has the data of one broker. Next: give another --data-dir, or start without --processes"
        )
    services = {
        f"broker-{each.broker_id}": _service(each, config_file, overrides, log_level) for each in brokers
    }
    try:
        with stop_signal() as stop:
            async with Processes(root / "up", seen=_log) as processes:
                for service in services.values():
                    await processes.launch(service)
                where = [(await processes.ready(name))[1] for name in services]
                seconds = clock.monotonic() - began
                click.echo(
                    f"moldau ready: {','.join(where)} ({count} processes, data {root}, {seconds:.2f} s)"
                )
                from moldau.cli.commands.services.up import watched

                await watched(processes, stop, None, restartable=services)
    except ServiceFailed as failure:
        from moldau.cli.commands.services.up import failure_message

        raise failure_message(failure) from failure


def _service(
    broker: BrokerProcess, config_file: Path | None, overrides: Mapping[str, str], log_level: str
) -> Service:
    arguments = ["broker", "--log-level", log_level]
    if config_file is not None:
        arguments += ["--config", str(config_file)]
    kept = {name: value for name, value in overrides.items() if name not in _DERIVED}
    for name, value in {**kept, **broker.settings}.items():
        arguments += ["--set", f"{name}={value}"]
    return Service(f"broker-{broker.broker_id}", moldau_command(*arguments), _READY)


def _log(name: str, line: str) -> None:
    """Into the one log of all: the number of the broker in front."""
    for each in escaped_lines(line).splitlines() or ("",):
        print(f"[{name.removeprefix('broker-')}] {each}", file=sys.stderr, flush=True)
