"""A ZooKeeper server of this machine: the one that comes inside PySpark's jars, run by Java.

Invariant: the server ends with the process that started it, and listens on the loopback address only.
"""

import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Unlike ``ZooKeeperServerMain`` it removes old snapshots from time to time, with one server too.
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_PURGE = "org.apache.zookeeper.server.PurgeTxnLog"


class ZooKeeperNotFound(Exception):
    """There is no Java, or no ZooKeeper; the message says what to install."""


def server_command(java: str, jars: Path, config: Path, *, memory_mb: int = 256) -> list[str]:
    return [*_java(java, jars, memory_mb), _MAIN, str(config)]


def purge_command(java: str, jars: Path, directory: Path, keep: int) -> list[str]:
    """Removes old snapshots and transaction logs of a ``write_config``, whether its server runs or not."""
    return [*_java(java, jars, 64), _PURGE, str(directory / "data"), "-n", str(keep)]


def _java(java: str, jars: Path, memory_mb: int) -> list[str]:
    wanted = ("zookeeper*.jar", "slf4j-api*.jar", "netty-*.jar", "metrics-core*.jar", "snappy-java*.jar")
    found = [str(path) for pattern in wanted for path in sorted(jars.glob(pattern))]
    if not any("zookeeper" in path for path in found):
        raise ZooKeeperNotFound(f"There is no ZooKeeper in {jars}: pip install 'moldau[spark]' brings one.")
    return [
        java,
        f"-Xmx{memory_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dzookeeper.admin.enableServer=false",
        "-cp",
        ":".join(found),
    ]


def write_config(
    directory: Path,
    port: int,
    *,
    host: str = "127.0.0.1",
    tick_ms: int = 2000,
    others: Mapping[str, object] | None = None,
) -> Path:
    """A zoo.cfg for one server; ``others`` are settings by ZooKeeper's names."""
    data = directory / "data"
    data.mkdir(parents=True, exist_ok=True)
    config = directory / "zoo.cfg"
    settings = {
        "tickTime": tick_ms,
        "dataDir": data,
        "clientPort": port,
        "clientPortAddress": host,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "*",
        **(others or {}),
    }
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "utf-8")
    return config


def start(command: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("ab") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server is ready: it says "imok" to "ruok"."""
    try:
        with socket.create_connection((host, port), timeout=1) as connection:
            connection.sendall(b"ruok")
            return connection.recv(4) == b"imok"
    except OSError:
        return False
