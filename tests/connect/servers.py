"""Real servers for tests of connectors: each is started once for a module, on a free port, and stopped behind
it.

``make servers`` installs what the machine can have of them. A test whose server is missing is skipped, with
the reason; where ``MOLDAU_TEST_CONNECT`` is set, as ``make test-connect`` does, it fails instead.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.shared.ports import free_port
from tests.shared.waiting import wait_until

#: Where ``make servers`` unpacks what has no package of its own.
FOLDER = Path(__file__).parents[2] / ".venv" / "servers"


def missing(what: str) -> Any:
    text = f"{what} is not installed: run make servers"
    return pytest.fail(text) if os.environ.get("MOLDAU_TEST_CONNECT") else pytest.skip(text)


@dataclass
class Server:
    """A process that can be killed and started again with the same data."""

    command: Sequence[str]
    port: int
    folder: Path
    answers: Callable[["Server"], bool]
    user: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    #: How long a start may take; Java's servers are slow on a busy machine.
    patience_seconds: float = 60.0
    process: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        who: dict[str, Any] = {}
        if self.user is not None and os.geteuid() == 0:
            who = {"user": self.user, "group": "nogroup", "extra_groups": []}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self.environment},
                cwd=self.folder,
                **who,
            )
        wait_until(
            self._ready,
            lambda: (self.folder / "log").read_text("utf-8", "replace")[-2000:],
            seconds=self.patience_seconds,
        )

    def _ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text("utf-8", "replace")[-2000:]
        return self.answers(self)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(60)
            self.process = None


@contextmanager
def folder_for(owner: str | None) -> Iterator[Path]:
    """A folder that the server's user can reach; pytest's own are closed to others."""
    made = Path(tempfile.mkdtemp(prefix="moldau-server-"))
    try:
        if owner is not None and os.geteuid() == 0:
            shutil.chown(made, owner)
        made.chmod(0o755)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _libraries(package: str) -> dict[str, str]:
    """Where an unpacked program finds what it links to."""
    places = [FOLDER / package / part / "x86_64-linux-gnu" for part in ("lib", "usr/lib")]
    return {"LD_LIBRARY_PATH": ":".join(map(str, places))}


# --- PostgreSQL ---------------------------------------------------------------------------------------


_INITDB = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8"]


def _postgresql_programs(who: dict[str, Any]) -> Path:
    """Where a PostgreSQL is that runs here for this user, who may not be allowed into every folder."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    for found in (shutil.which("initdb"), *reversed(debian), *FOLDER.glob("**/bin/initdb")):
        if found is None:
            continue
        with suppress(OSError):
            if subprocess.run([found, "--version"], capture_output=True, cwd="/", **who).returncode == 0:
                return Path(found).parent
    return missing("PostgreSQL")


@contextmanager
def postgresql() -> Iterator[Server]:
    """The user is postgres, without a password; a database of that name is there. Logical replication is
    on."""
    pytest.importorskip("psycopg")
    owner = "nobody" if os.geteuid() == 0 else None
    who: dict[str, Any] = {"user": owner, "group": "nogroup", "extra_groups": []} if owner else {}
    programs = _postgresql_programs(who)
    with folder_for(owner) as folder:
        data, port = folder / "data", free_port()
        made = subprocess.run(
            [
                programs / "initdb",
                "-D",
                data,
                "-N",
                *_INITDB,
            ],
            capture_output=True,
            cwd=folder,
            **who,
        )
        assert made.returncode == 0, made.stderr
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(folder),
            "wal_level": "logical",
            "fsync": "off",
            "max_wal_senders": "8",
            "max_replication_slots": "8",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(programs / "postgres"), "-D", str(data), "-p", str(port), *options]
        server = Server(command, port, folder, _postgresql_answers, owner)
        server.start()
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)  # at once: nobody needs the data


def _postgresql_answers(server: Server) -> bool:
    import psycopg

    try:
        psycopg.connect(postgresql_address(server), connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def postgresql_address(server: Server) -> str:
    return f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres"


# --- MariaDB ------------------------------------------------------------------------------------------


@contextmanager
def mariadb() -> Iterator[Server]:
    """The user is root, without a password; the database is called test. The binary log has rows."""
    pytest.importorskip("pymysql")
    root = FOLDER / "mariadb" / "usr"
    found = shutil.which("mariadbd") or (
        root / "sbin/mariadbd" if (root / "sbin/mariadbd").exists() else None
    )
    program = Path(found) if found else missing("MariaDB")
    base = program.parents[1]
    owner = "nobody" if os.geteuid() == 0 else None
    with folder_for(owner) as folder:
        data, port = folder / "data", free_port()
        environment = _libraries("mariadb")
        installer = base / "bin/mariadb-install-db"
        who: dict[str, Any] = {"user": owner, "group": "nogroup", "extra_groups": []} if owner else {}
        made = subprocess.run(
            [
                installer,
                "--no-defaults",
                f"--basedir={base}",
                f"--datadir={data}",
                "--skip-test-db",
                "--auth-root-authentication-method=normal",
            ],
            capture_output=True,
            cwd=folder,
            env={**os.environ, **environment},
            **who,
        )
        assert made.returncode == 0, made.stderr + made.stdout
        command = [str(program), "--no-defaults", f"--basedir={base}", f"--datadir={data}"]
        command += ["--bind-address=127.0.0.1", f"--port={port}", f"--socket={folder}/socket"]
        command += [f"--plugin-dir={base}/lib/mysql/plugin", "--server-id=1", "--log-bin=bin"]
        command += ["--binlog-format=ROW", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL"]
        server = Server(command, port, folder, _mariadb_answers, owner, environment)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _mariadb_answers(server: Server) -> bool:
    import pymysql

    try:
        connection = pymysql.connect(host="127.0.0.1", port=server.port, user="root")
    except pymysql.err.OperationalError:
        return False
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS test CHARACTER SET utf8mb4")
    return True


# --- MongoDB ------------------------------------------------------------------------------------------


@contextmanager
def mongodb() -> Iterator[Server]:
    """A replica set of one, so that there are change streams."""
    pytest.importorskip("pymongo")
    found = shutil.which("mongod") or next(iter(FOLDER.glob("**/bin/mongod")), None)
    program = str(found) if found else missing("MongoDB")
    with folder_for(None) as folder:
        (folder / "data").mkdir()
        port = free_port()
        command = [program, "--dbpath", str(folder / "data"), "--bind_ip", "127.0.0.1", "--port", str(port)]
        command += ["--replSet", "rs0", "--wiredTigerCacheSizeGB", "0.25", "--nounixsocket"]
        command += ["--oplogSize", "64"]
        server = Server(command, port, folder, _mongodb_answers)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _mongodb_answers(server: Server) -> bool:
    import pymongo
    from pymongo.errors import OperationFailure, PyMongoError

    url = mongodb_address(server)
    with pymongo.MongoClient(url, serverSelectionTimeoutMS=1000) as client:
        try:
            members = [{"_id": 0, "host": f"127.0.0.1:{server.port}"}]
            client.admin.command("replSetInitiate", {"_id": "rs0", "members": members})
        except OperationFailure:
            pass  # it is one already
        except PyMongoError:
            return False
        try:
            return bool(client.admin.command("hello")["isWritablePrimary"])
        except PyMongoError:
            return False


def mongodb_address(server: Server) -> str:
    return f"mongodb://127.0.0.1:{server.port}/?directConnection=true"


# --- Redis --------------------------------------------------------------------------------------------


@contextmanager
def redis_server() -> Iterator[Server]:
    pytest.importorskip("redis")
    unpacked = FOLDER / "redis/usr/bin/redis-server"
    found = shutil.which("redis-server") or (unpacked if unpacked.exists() else None)
    program = str(found) if found else missing("Redis")
    with folder_for(None) as folder:
        port = free_port()
        command = [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
        server = Server(command, port, folder, _redis_answers, None, _libraries("redis"))
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _redis_answers(server: Server) -> bool:
    import redis

    try:
        with redis.Redis(port=server.port) as client:
            return bool(client.ping())
    except redis.ConnectionError:
        return False


# --- S3 -----------------------------------------------------------------------------------------------


@contextmanager
def s3_server() -> Iterator[Server]:
    """moto: it keeps objects in memory and takes any key."""
    pytest.importorskip("obstore")
    place = FOLDER / "moto"
    if not place.exists():
        missing("moto, which speaks S3,")
    with folder_for(None) as folder:
        port = free_port()
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        server = Server(command, port, folder, port_is_open, None, {"PYTHONPATH": str(place)})
        server.start()
        try:
            yield server
        finally:
            server.stop()


def port_is_open(server: Server) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", server.port)) == 0
