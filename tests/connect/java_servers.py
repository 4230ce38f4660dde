"""Servers that run on Java, from Maven's packages: Cassandra, HDFS, HBase, OpenSearch; for
``make test-connect`` and demos.

Each has its data in a folder of its own, listens on free ports of 127.0.0.1, and is stopped behind the test.
"""

import http.client
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.connect.servers import FOLDER, Server, folder_for, missing, port_is_open
from tests.shared.ports import free_port

_OPENED = ("java.lang", "java.lang.module", "java.lang.reflect", "java.io", "java.nio", "java.util")
_OPENED += ("java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "jdk.internal.loader")
_OPENED += ("jdk.internal.ref", "jdk.internal.reflect", "jdk.internal.math", "jdk.internal.module")
_OPENED += ("jdk.internal.util.jar",)
_EXPORTED = ("java.base/jdk.internal.misc", "java.base/java.lang.ref", "jdk.unsupported/sun.misc")
_EXPORTED += ("java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.rmi/sun.rmi.registry")
_EXPORTED += ("java.rmi/sun.rmi.server", "java.rmi/sun.rmi.transport.tcp", "java.sql/java.sql")
_EXPORTED += ("java.security.jgss/sun.security.krb5", "jdk.attach/sun.tools.attach")


def _java(name: str, megabytes: int, settings: Path) -> list[str]:
    """The beginning of a command that runs a class of the server ``name``."""
    jars = FOLDER / name / "lib"
    if not jars.exists():
        missing(name)
    opened = [part for each in _OPENED for part in ("--add-opens", f"java.base/{each}=ALL-UNNAMED")]
    opened += ["--add-opens", "jdk.management/com.sun.management.internal=ALL-UNNAMED"]
    exported = [part for each in _EXPORTED for part in ("--add-exports", f"{each}=ALL-UNNAMED")]
    home = [f"-Duser.home={settings.parent}", "-Djava.net.preferIPv4Stack=true"]
    memory = [f"-Xmx{megabytes}m", "-XX:TieredStopAtLevel=1"]
    return [_program(), *memory, *home, *opened, *exported, "-cp", f"{settings}:{jars}/*"]


def _program() -> str:
    found = shutil.which("java")
    return found if found is not None else missing("Java")


def _site(path: Path, values: Mapping[str, object]) -> None:
    """A file of settings of Hadoop and its kin."""
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in values.items()
    )
    path.write_text(f"<configuration>{rows}</configuration>")


# --- Cassandra ----------------------------------------------------------------------------------------


@contextmanager
def cassandra() -> Iterator[Server]:
    """One node without logins; it is ready when the driver has connected."""
    pytest.importorskip("cassandra")
    with folder_for(None) as folder:
        settings = folder / "conf"
        settings.mkdir()
        command = _java("cassandra", 512, settings)
        port, storage = free_port(), free_port()
        (settings / "cassandra.yaml").write_text(_cassandra_yaml(folder, port, storage))
        (settings / "logback.xml").write_text(
            '<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder>'
            "<pattern>%level %msg%n</pattern></encoder></appender>"
            '<root level="WARN"><appender-ref ref="out"/></root></configuration>'
        )
        (agent,) = (FOLDER / "cassandra/lib").glob("jamm-*.jar")
        options = {
            "cassandra.config": f"file://{settings}/cassandra.yaml",
            "cassandra.storagedir": folder / "data",
            "cassandra-foreground": "yes",
            "cassandra.skip_wait_for_gossip_to_settle": 0,
            "cassandra.ring_delay_ms": 1,
            "cassandra.superuser_setup_delay_ms": 0,
            "cassandra.jmx.local.port": free_port(),
            "jdk.attach.allowAttachSelf": "true",
            "io.netty.tryReflectionSetAccessible": "true",
        }
        command += [f"-D{name}={value}" for name, value in options.items()]
        command += [f"-javaagent:{agent}", "org.apache.cassandra.service.CassandraDaemon"]
        with _running(Server(command, port, folder, port_is_open)) as server:
            yield server


def _cassandra_yaml(folder: Path, port: int, storage: int) -> str:
    places = {
        "commitlog_directory": "commitlog",
        "saved_caches_directory": "saved_caches",
        "hints_directory": "hints",
        "cdc_raw_directory": "cdc_raw",
    }
    lines = [f"{name}: {folder}/data/{place}" for name, place in places.items()]
    return "\n".join(
        [
            *lines,
            f"data_file_directories: ['{folder}/data/data']",
            "cluster_name: test",
            "num_tokens: 1",
            "partitioner: org.apache.cassandra.dht.Murmur3Partitioner",
            "commitlog_sync: periodic",
            "commitlog_sync_period: 10000ms",
            "endpoint_snitch: SimpleSnitch",
            "seed_provider:",
            "  - class_name: org.apache.cassandra.locator.SimpleSeedProvider",
            f"    parameters: [{{seeds: '127.0.0.1:{storage}'}}]",
            "listen_address: 127.0.0.1",
            "rpc_address: 127.0.0.1",
            f"storage_port: {storage}",
            f"native_transport_port: {port}",
            "auto_bootstrap: false",
        ]
    )


# --- HDFS ---------------------------------------------------------------------------------------------


@contextmanager
def hdfs() -> Iterator[Server]:
    """A NameNode with WebHDFS on ``port``, and a DataNode behind it. The server is the NameNode: it can be
    killed and started again."""
    with folder_for(None) as folder:
        settings = folder / "conf"
        for place in ("webapps/hdfs/WEB-INF", "webapps/datanode/WEB-INF", "webapps/static"):
            (settings / place).mkdir(parents=True)
        command = _java("hdfs", 256, settings)
        web = _hdfs_settings(settings, folder)
        (settings / "log4j.properties").write_text(
            "log4j.rootLogger=WARN,out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n"
            "log4j.appender.out.layout=org.apache.log4j.SimpleLayout\n"
        )
        name_node = [*command, "org.apache.hadoop.hdfs.server.namenode.NameNode"]
        made = subprocess.run([*name_node, "-format", "-force"], capture_output=True, cwd=folder)
        assert made.returncode == 0, made.stderr[-2000:]
        data_node = [*command, "org.apache.hadoop.hdfs.server.datanode.DataNode"]
        with _running(Server(name_node, web, folder, _hdfs_answers)) as server:
            data = folder / "datanode"
            data.mkdir()
            with _running(Server(data_node, web, data, _hdfs_takes_blocks)):
                yield server


def hdfs_url(server: Server) -> str:
    """The address of its own protocol; the server's port is that of WebHDFS."""
    found = re.search(r"hdfs://[^<]+", (server.folder / "conf/core-site.xml").read_text())
    assert found is not None
    return found[0]


def _hdfs_settings(settings: Path, folder: Path) -> int:
    web, rpc = free_port(), free_port()
    _site(
        settings / "core-site.xml",
        {"fs.defaultFS": f"hdfs://127.0.0.1:{rpc}", "hadoop.tmp.dir": folder / "data"},
    )
    _site(
        settings / "hdfs-site.xml",
        {
            "dfs.replication": 1,
            "dfs.namenode.http-address": f"127.0.0.1:{web}",
            "dfs.namenode.rpc-bind-host": "127.0.0.1",
            "dfs.datanode.address": f"127.0.0.1:{free_port()}",
            "dfs.datanode.http.address": f"127.0.0.1:{free_port()}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{free_port()}",
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.permissions.enabled": "false",
            "dfs.namenode.safemode.extension": 0,
        },
    )
    return web


def _asked(server: Server, method: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except OSError:
        return 0, b""
    finally:
        connection.close()


def _hdfs_answers(server: Server) -> bool:
    return _asked(server, "GET", "/webhdfs/v1/?op=LISTSTATUS&user.name=tests")[0] == 200


def _hdfs_takes_blocks(server: Server) -> bool:
    """A DataNode has registered: the NameNode names it as the place of a new file."""
    path = "/webhdfs/v1/ready?op=CREATE&user.name=tests&overwrite=true"
    return _asked(server, "PUT", path)[0] == 307


# --- HBase --------------------------------------------------------------------------------------------


@contextmanager
def hbase() -> Iterator[Server]:
    """ZooKeeper, master and region server in one process; the server is its REST gateway."""
    with folder_for(None) as folder:
        settings = folder / "conf"
        settings.mkdir()
        command = _java("hbase", 512, settings)
        keeper, rest = free_port(), free_port()
        values = {
            "hbase.cluster.distributed": "false",
            "hbase.rootdir": f"file://{folder}/data/root",
            "hbase.tmp.dir": folder / "tmp",
            "hbase.zookeeper.property.dataDir": folder / "data/zookeeper",
            "hbase.zookeeper.property.clientPort": keeper,
            "hbase.zookeeper.property.clientPortAddress": "127.0.0.1",
            "hbase.zookeeper.quorum": "127.0.0.1",
            "hbase.unsafe.stream.capability.enforce": "false",
            "hbase.wal.provider": "filesystem",
            "hbase.master.info.port": -1,
            "hbase.regionserver.info.port": -1,
            "hbase.master.port": free_port(),
            "hbase.regionserver.port": free_port(),
            "hbase.rest.host": "127.0.0.1",
            "hbase.rest.port": rest,
            "hbase.rest.info.port": -1,
        }
        for role in ("master", "regionserver"):
            values |= {f"hbase.{role}.hostname": "127.0.0.1", f"hbase.{role}.ipc.address": "127.0.0.1"}
        _site(settings / "hbase-site.xml", values)
        master = Server(
            [*command, "org.apache.hadoop.hbase.master.HMaster", "start"], keeper, folder, port_is_open
        )
        gateway = folder / "gateway"
        gateway.mkdir()
        with _running(master):
            start = [*command, "org.apache.hadoop.hbase.rest.RESTServer", "start"]
            with _running(Server(start, rest, gateway, _hbase_answers)) as server:
                yield server


def _hbase_answers(server: Server) -> bool:
    return _asked(server, "GET", "/status/cluster")[0] == 200


# --- OpenSearch ---------------------------------------------------------------------------------------


@contextmanager
def opensearch() -> Iterator[Server]:
    """One node without logins. It runs as another user: OpenSearch refuses root."""
    unpacked = FOLDER / "opensearch"
    if not unpacked.exists():
        missing("OpenSearch")
    owner = "nobody" if os.geteuid() == 0 else None
    with folder_for(owner) as folder:
        home, port = folder / "home", free_port()
        shutil.copytree(unpacked, home, symlinks=True)
        (home / "config/opensearch.yml").write_text(
            "discovery.type: single-node\nnetwork.host: 127.0.0.1\n"
            f"http.port: {port}\ntransport.port: {free_port()}\n"
            "cluster.routing.allocation.disk.threshold_enabled: false\n"
        )
        (folder / "tmp").mkdir()
        if owner is not None:
            for path in (folder, *folder.rglob("*")):
                shutil.chown(path, owner, "nogroup")
        environment = {
            "OPENSEARCH_JAVA_HOME": str(Path(_program()).resolve().parents[1]),
            "OPENSEARCH_JAVA_OPTS": "-Xms512m -Xmx512m",
            "OPENSEARCH_TMPDIR": str(folder / "tmp"),
            "HOME": str(folder),
        }
        server = Server([str(home / "bin/opensearch")], port, folder, _opensearch_answers, owner, environment)
        with _running(server):
            yield server


def _opensearch_answers(server: Server) -> bool:
    return _asked(server, "GET", "/_cluster/health")[0] == 200


@contextmanager
def _running(server: Server) -> Iterator[Server]:
    server.patience_seconds = 240.0
    server.start()
    try:
        yield server
    finally:
        server.stop()
