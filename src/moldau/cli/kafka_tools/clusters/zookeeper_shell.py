"""``moldau zookeeper-shell``: look at and change znodes, with commands and output of ZooKeeper's own shell.

    moldau zookeeper-shell HOST:PORT[/CHROOT] COMMAND ...

Commands: ls [-s] [-R], get [-s], stat, getAcl, create, set [-s] [-v VERSION], delete, deleteall. Without one
it reads commands from standard input, one a line. It logs in as the section ``Client`` of the JAAS file says
that KAFKA_OPTS names.
"""

import os
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from moldau.cli.kafka_tools.framework.options import OptionError, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool

TOOL = Tool(
    "zookeeper-shell",
    "Looks at and changes znodes, with the commands of ZooKeeper's own shell.",
    Options(),
    (
        "localhost:2181 ls /brokers/ids",
        "localhost:2181/kafka get -s /controller",
        "localhost:2181 deleteall /old",
    ),
    "Znodes below /brokers, /config and /controller are written by the brokers for others to read: a change "
    "by hand changes nothing in the cluster, except that without /controller another one is elected.",
)
_CONNECT_SECONDS = 30.0
_UNKNOWN_COMMAND = 127
_EVENT = "\nWATCHER::\n\nWatchedEvent state:{} type:None path:null"
_PERMISSIONS = (("c", 4), ("d", 8), ("r", 1), ("w", 2), ("a", 16))


class ShellError(Exception):
    """What the shell prints to standard error, and its exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments or arguments[0].startswith("-"):
        wrong = f"{arguments[0]} is no address\n" if arguments else ""
        raise OptionError(f"{wrong}USAGE: moldau zookeeper-shell zookeeper_host:port[/path] [args...]")
    try:
        from kazoo.client import KazooClient
        from kazoo.handlers.threading import KazooTimeoutError
    except ImportError:
        console.error("zookeeper-shell needs kazoo: pip install 'moldau[cluster]'")
        return 1
    address, *command = arguments
    console.print(f"Connecting to {address}")
    hosts, slash, chroot = address.partition("/")
    client = KazooClient(hosts=hosts, timeout=_CONNECT_SECONDS)
    _log_in(client, os.environ.get("KAFKA_OPTS", ""))
    try:
        client.start(timeout=_CONNECT_SECONDS)
    except KazooTimeoutError:
        path = next((each for each in command if each.startswith("/")), "/")
        console.error(f"KeeperErrorCode = ConnectionLoss for {path}\nNothing answers at {hosts}")
        return 1
    client.chroot = f"{slash}{chroot}".rstrip("/")
    if not command:
        console.print("Welcome to ZooKeeper!\nJLine support is disabled")
    console.print(_EVENT.format("SyncConnected"))
    try:
        if command:
            return _run(client, command, console)
        code = 0
        for line in console.stdin:
            words = shlex.split(line.decode("utf-8", "replace"))
            if words and words[0] in ("quit", "close"):
                break
            if words:
                code = _run(client, words, console)
        console.print(_EVENT.format("Closed"))
        return code
    finally:
        client.stop()
        client.close()


def _log_in(client: Any, options: str) -> None:
    from moldau.security.jaas import file_of_options, zookeeper_settings

    path = file_of_options(options)
    if path is None:
        return
    from moldau.cluster.store.zookeeper.sasl import log_in_with
    from moldau.cluster.store.zookeeper.settings import zookeeper_login

    try:
        found = zookeeper_settings(Path(path).read_text("utf-8"), options)
        line, service = (
            found.get("moldau.zookeeper.sasl.jaas.config"),
            found.get("moldau.zookeeper.sasl.service.name", "zookeeper"),
        )
        if line is not None:
            log_in_with(client, zookeeper_login(line, service))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OptionError(f"{path}, which KAFKA_OPTS names: {reason}") from None


def _run(client: Any, words: Sequence[str], console: Console) -> int:
    from kazoo.exceptions import (
        AuthFailedError,
        BadVersionError,
        NoAuthError,
        NodeExistsError,
        NoNodeError,
        NotEmptyError,
    )

    name, *rest = words
    command = _COMMANDS.get(name)
    if command is None:
        console.error(f"Command not found: Command not found {name}")
        return _UNKNOWN_COMMAND
    flags = [each for each in rest if each.startswith("-") and len(each) > 1]
    plain = [each for each in rest if each not in flags]
    path = plain[1] if "-v" in flags and len(plain) > 1 else plain[0] if plain else ""
    messages = {
        NoNodeError: "Node does not exist",
        NodeExistsError: "Node already exists",
        NotEmptyError: "Node not empty",
        BadVersionError: "version No is not valid",
        NoAuthError: "Insufficient permission",
    }
    try:
        command(client, plain, flags, console)
    except tuple(messages) as error:
        console.error(
            f"{messages[type(error)]} : {path}"
            if isinstance(error, BadVersionError | NoAuthError)
            else f"{messages[type(error)]}: {path}"
        )
        return 1
    except AuthFailedError:
        why = getattr(client, "login_failed", "the server refuses it")
        console.error(f"KeeperErrorCode = AuthFailed: the login of KAFKA_OPTS: {why}")
        return 1
    except ShellError as error:
        console.error(str(error))
        return error.code
    return 0


def _ls(client: Any, plain: Sequence[str], flags: Sequence[str], console: Console) -> None:
    path = _path(plain, "ls [-s] [-w] [-R] path")
    if "-R" in flags:
        for each in _below(client, path):
            console.print(each)
        return
    children, stat = client.get_children(path, include_data=True)
    console.print(f"[{', '.join(sorted(children))}]")
    if "-s" in flags:
        _print_stat(stat, console)


def _below(client: Any, path: str) -> list[str]:
    """The path and everything below it, level by level."""
    found, level = [], [path]
    while level:
        found += level
        level = [
            f"{parent.rstrip('/')}/{child}"
            for parent in level
            for child in sorted(client.get_children(parent))
        ]
    return found


def _get(client: Any, plain: Sequence[str], flags: Sequence[str], console: Console) -> None:
    data, stat = client.get(_path(plain, "get [-s] [-w] path"))
    console.print(
        "null" if data is None or (not data and stat.dataLength == 0) else data.decode("utf-8", "replace")
    )
    if "-s" in flags:
        _print_stat(stat, console)


def _stat(client: Any, plain: Sequence[str], flags: Sequence[str], console: Console) -> None:
    _print_stat(client.get(_path(plain, "stat [-w] path"))[1], console)


def _get_acl(client: Any, plain: Sequence[str], flags: Sequence[str], console: Console) -> None:
    for acl in client.get_acls(_path(plain, "getAcl [-s] path"))[0]:
        console.print(f"'{acl.id.scheme},'{acl.id.id}")
        console.print(": " + "".join(letter for letter, bit in _PERMISSIONS if acl.perms & bit))


def _create(client: Any, plain: Sequence[str], flags: Sequence[str], console: Console) -> None:
    path = _path(plain, "create [-s] [-e] path [data]")
    data = plain[1].encode() if len(plain) > 1 else None
    made = client.create(path, data, ephemeral="-e" in flags, sequence="-s" in flags)
    console.error(f"Created {made}")


def _set(client: Any, plain: Sequence[str], flags: Sequence[str], console: Console) -> None:
    values = list(plain)
    version = int(values.pop(0)) if "-v" in flags else -1
    if len(values) < 2:
        raise ShellError("set [-s] [-v version] path data")
    stat = client.set(values[0], values[1].encode(), version=version)
    if "-s" in flags:
        _print_stat(stat, console)


def _delete(client: Any, plain: Sequence[str], flags: Sequence[str], console: Console) -> None:
    values = list(plain)
    version = int(values.pop(0)) if "-v" in flags else -1
    client.delete(_path(values, "delete [-v version] path"), version=version)


def _delete_all(client: Any, plain: Sequence[str], flags: Sequence[str], console: Console) -> None:
    path = _path(plain, "deleteall path")
    client.get(path)  # kazoo takes a path that is not there for done
    client.delete(path, recursive=True)


def _path(plain: Sequence[str], usage: str) -> str:
    if not plain:
        raise ShellError(usage)
    if not plain[0].startswith("/"):
        raise ShellError("Path must start with / character")
    return plain[0]


def _print_stat(stat: Any, console: Console) -> None:
    def moment(ms: int) -> str:
        return time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(ms / 1000))

    for line in (
        f"cZxid = {stat.czxid:#x}",
        f"ctime = {moment(stat.ctime)}",
        f"mZxid = {stat.mzxid:#x}",
        f"mtime = {moment(stat.mtime)}",
        f"pZxid = {stat.pzxid:#x}",
        f"cversion = {stat.cversion}",
        f"dataVersion = {stat.version}",
        f"aclVersion = {stat.aversion}",
        f"ephemeralOwner = {stat.ephemeralOwner or 0:#x}",
        f"dataLength = {stat.dataLength}",
        f"numChildren = {stat.numChildren}",
    ):
        console.print(line)


_COMMANDS: dict[str, Callable[[Any, Sequence[str], Sequence[str], Console], None]] = {
    "ls": _ls,
    "get": _get,
    "stat": _stat,
    "getAcl": _get_acl,
    "create": _create,
    "set": _set,
    "delete": _delete,
    "deleteall": _delete_all,
}
