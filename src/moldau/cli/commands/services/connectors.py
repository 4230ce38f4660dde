"""``moldau connectors``: what the connectors of a worker do, why one fails; pause, resume, restart, delete.

Invariant: everything goes through REST, so that it also works with workers of Apache Kafka.
"""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from moldau.cli.output import echo, print_json, print_table
from moldau.cli.session import FILE, json_option, needs

_URL = click.option(
    "--url",
    default="http://127.0.0.1:8083",
    show_default=True,
    envvar="MOLDAU_CONNECT_URL",
    help="REST of a worker.",
)
_USER = click.option("--user", metavar="NAME:PASSWORD", envvar="MOLDAU_CONNECT_USER", help="Who you are.")


class _Worker:
    def __init__(self, url: str, user: str | None) -> None:
        with needs("this", "connect"):
            from moldau.connect.connectors.http.client import HttpClient
            from moldau.connect.errors import ConfigException
        name, _, password = (user or "").partition(":")
        try:
            self._client = HttpClient(url, user=name or None, password=password)
        except ConfigException as error:
            raise click.ClickException(error.message) from error

    def call(self, method: str, path: str, body: Any = None) -> Any:
        from moldau.connect.errors import RetriableException

        sent = b"" if body is None else json.dumps(body).encode()
        try:
            answer = self._client.send(method, path, sent, {"Content-Type": "application/json"})
        except RetriableException as error:
            raise click.ClickException(f"{error.message}. Next: moldau connect, or --url") from error
        try:
            found = answer.json() if answer.body else None
        except ValueError:
            found = None
        if answer.status >= 300:
            said = (
                found.get("message")
                if isinstance(found, dict)
                else answer.body[:300].decode("utf-8", "replace")
            )
            raise click.ClickException(f"the worker answers {answer.status}: {said}")
        return found


def _path(name: str, rest: str = "") -> str:
    return f"/connectors/{quote(name, safe='')}{rest}"


@click.group()
def connectors() -> None:
    """List, pause, resume, restart and delete connectors, and say why one fails.

    \b
    Examples:
      moldau connectors list
      moldau connectors status orders-sink
      moldau connectors why orders-sink
      moldau connectors create orders-sink.json
      moldau connectors restart orders-sink
    """


@connectors.command("list")
@_URL
@_USER
@json_option
def list_connectors(url: str, user: str | None, as_json: bool) -> None:
    """Show all connectors with their states.

    \b
    Examples:
      moldau connectors list
      moldau connectors list --url http://connect.example:8083 --json
    """
    worker = _Worker(url, user)
    found = worker.call("GET", "/connectors?expand=status&expand=info")
    rows = [_row(name, each) for name, each in sorted(found.items())]
    if as_json:
        print_json(rows)
    else:
        print_table(
            ["NAME", "TYPE", "STATE", "TASKS", "WORKER", "CLASS"],
            [(r["name"], r["type"], r["state"], r["tasks"], r["worker"], r["class"]) for r in rows],
        )


def _row(name: str, each: dict[str, Any]) -> dict[str, Any]:
    status, config = each.get("status", {}), each.get("info", {}).get("config", {})
    states = [task["state"] for task in status.get("tasks", [])]
    counted = ", ".join(f"{states.count(state)} {state.lower()}" for state in sorted(set(states)))
    connector = status.get("connector", {})
    return {
        "name": name,
        "type": status.get("type"),
        "state": connector.get("state"),
        "tasks": counted,
        "worker": connector.get("worker_id"),
        "class": str(config.get("connector.class", "")).rpartition(".")[2],
    }


@connectors.command()
@click.argument("name")
@_URL
@_USER
@json_option
def status(name: str, url: str, user: str | None, as_json: bool) -> None:
    """Show one connector, its tasks and how far it is.

    \b
    Example:
      moldau connectors status orders-sink
    """
    worker = _Worker(url, user)
    found = worker.call("GET", _path(name, "/status"))
    offsets = worker.call("GET", _path(name, "/offsets"))["offsets"]
    if as_json:
        print_json({**found, "offsets": offsets})
        return
    echo(f"{name} ({found['type']}): {found['connector']['state']} on {found['connector']['worker_id']}")
    for task in found["tasks"]:
        echo(f"  task {task['id']}: {task['state']} on {task['worker_id']}")
    for each in offsets:
        echo(f"  at {json.dumps(each['partition'])}: {json.dumps(each['offset'])}")


@connectors.command()
@click.argument("name")
@_URL
@_USER
def why(name: str, url: str, user: str | None) -> None:
    """Say why a connector fails or waits: the reasons in the order of cause, the last one the deepest.

    \b
    Example:
      moldau connectors why orders-sink
    """
    found = _Worker(url, user).call("GET", _path(name, "/status"))
    parts = [("the connector", found["connector"])]
    parts += [(f"task {task['id']}", task) for task in found["tasks"]]
    said = False
    for what, each in parts:
        reasons = _reasons(each.get("trace") or "")
        if not reasons:
            continue
        said = True
        waits = each["state"] == "RESTARTING"
        echo(f"{what} is {each['state']}{' and tries again by itself' if waits else ''}:")
        for reason in reasons:
            echo(f"  {reason}")
        if each["state"] == "FAILED":
            echo(f"  Next: mend that, then moldau connectors restart {name}")
    if not said:
        state = found["connector"]["state"]
        echo(
            f"{name} is {state}; nothing is wrong with it"
            if found["tasks"]
            else f"{name} is {state}, without tasks"
        )


def _reasons(trace: str) -> list[str]:
    """The errors of a trace without the places in the code."""
    lines = [line for line in trace.splitlines() if line.strip() and not line.startswith("\tat ")]
    return [_short(line.removeprefix("Caused by: ")) for line in lines]


def _short(line: str) -> str:
    kind, colon, message = line.partition(": ")
    return f"{kind.rpartition('.')[2]}{colon}{message}"


@connectors.command()
@click.argument("file", type=FILE)
@_URL
@_USER
def create(file: Path, url: str, user: str | None) -> None:
    """Make a connector, or change it, from a file of properties or JSON.

    \b
    Example:
      moldau connectors create orders-sink.json
    """
    from moldau.cli.commands.services.connect import read_connector

    config = read_connector(file)
    name = config.get("name", "")
    if not name:
        raise click.ClickException(f"{file} has no name")
    _Worker(url, user).call("PUT", _path(name, "/config"), config)
    echo(f"{name} is there. Next: moldau connectors status {name}")


def _simple(verb: str, method: str, rest: str, done: str) -> None:
    """Commands that are one request."""

    @connectors.command(
        verb, help=f"{done.capitalize()} a connector.\n\n\b\nExample:\n  moldau connectors {verb} NAME"
    )
    @click.argument("name")
    @_URL
    @_USER
    def command(name: str, url: str, user: str | None) -> None:
        _Worker(url, user).call(method, _path(name, rest))
        echo(f"{name}: {verb} is asked for" if verb != "delete" else f"{name} is deleted")


_simple("pause", "PUT", "/pause", "hold back the tasks of")
_simple("resume", "PUT", "/resume", "let go on")
_simple("stop", "PUT", "/stop", "end the tasks of")
_simple("restart", "POST", "/restart?includeTasks=true&onlyFailed=false", "begin anew")
_simple("delete", "DELETE", "", "delete")
