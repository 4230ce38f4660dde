"""Configurations that want more than connectors may have: files of the worker, inner networks, code, options
of Spark, secrets. Each is refused when it is given, with a reason, and without showing a secret.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.testing import Broker
from tests.connect.conftest import Worker, running
from tests.shared.waiting import wait_until

pytestmark = pytest.mark.slow

SECRET = "hush-hush-42"
#: One address, in the forms that people use to hide it; and names that stand for it.
METADATA = [
    "169.254.169.254",
    "2852039166",
    "0xa9.254.169.254",
    "0251.0376.0251.0376",
    "[::ffff:169.254.169.254]",
]
METADATA += ["[fe80::1]", "metadata.google.internal", "METADATA.google.internal."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hostile")
    (made / "data").mkdir()
    (made / "data/out").symlink_to("/etc")
    return made


@pytest.fixture(scope="module")
def worker(broker: Broker, folder: Path) -> Iterator[Worker]:
    with running(broker, folder, connectors_allowed_paths=str(folder / "data")) as worker:
        yield worker


def paths(folder: Path) -> Iterator[dict[str, str]]:
    outside = [
        "/etc/passwd",
        str(folder / "data/../connect.offsets"),
        str(folder / "data/out/passwd"),
        "passwd",
    ]
    for path in outside:
        yield {"connector.class": "FileStreamSource", "topic": "t", "file": path}
        yield {"connector.class": "FileStreamSink", "topics": "t", "file": path}
        yield {
            "connector.class": "JdbcSourceConnector",
            "connection.url": f"jdbc:sqlite:{path}",
            "mode": "bulk",
            "topic.prefix": "t",
        }
        yield {"connector.class": "JdbcSinkConnector", "topics": "t", "connection.url": f"jdbc:sqlite:{path}"}
        yield {"connector.class": "ArchiveSinkConnector", "topics": "t", "archive.path": path}
        yield {"connector.class": "DeltaSinkConnector", "topics": "t", "delta.path": path}
        yield {"connector.class": "HttpReceiver", "topic": "t", "http.port": "0", "http.tls.cert": path}
        yield {
            "connector.class": "IcebergSinkConnector",
            "topics": "t",
            "iceberg.tables": "a.b",
            "iceberg.catalog.type": "sql",
            "iceberg.catalog.uri": f"sqlite:///{path}",
            "iceberg.catalog.warehouse": str(folder / "data"),
        }


def hosts(folder: Path) -> Iterator[dict[str, str]]:
    for host in METADATA:
        yield {"connector.class": "HttpSinkConnector", "topics": "t", "http.url": f"http://{host}/latest"}
        yield {
            "connector.class": "OpensearchSinkConnector",
            "topics": "t",
            "connection.url": f"http://ann:{SECRET}@{host}:9200",
        }
        yield {"connector.class": "HBaseSink", "topics": "t", "connection.url": f"http://{host}:8080"}
        yield {"connector.class": "DeltaSinkConnector", "topics": "t", "delta.path": "s3://b/f"} | {
            "store.url": f"http://{host}"
        }
        bare = host.strip("[]")
        cdc = {
            "database.hostname": bare,
            "database.user": "u",
            "topic.prefix": "p",
            "database.password": SECRET,
        }
        yield {"connector.class": "io.debezium.connector.mysql.MySqlConnector", **cdc}
        yield {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.dbname": "d",
            **cdc,
        }
        yield {
            "connector.class": "IcebergSinkConnector",
            "topics": "t",
            "iceberg.tables": "a.b",
            "iceberg.catalog.uri": f"http://{host}/",
        }


def code(folder: Path) -> Iterator[dict[str, str]]:
    sink = {"connector.class": "FileStreamSink", "topics": "t", "file": str(folder / "data/f")}
    for name in ("os.system", "subprocess:run", "java.lang.Runtime", "../../evil"):
        yield {**sink, "connector.class": name}
        yield {**sink, "value.converter": name}
        yield {**sink, "transforms": "x", "transforms.x.type": name}
        yield {
            **sink,
            "transforms": "x",
            "transforms.x.type": "python",
            "transforms.x.function": f"{name}:run",
        }
    for side in ("key", "value", "header"):
        converter = f"{side}.converter"
        yield {
            **sink,
            converter: "io.confluent.connect.avro.AvroConverter",
            f"{converter}.schema.registry.url": f"http://registry.example:8081, http://{METADATA[0]}/latest",
        }
    for name in ("producer.override.sasl.jaas.config", "consumer.override.bootstrap.servers"):
        yield {**sink, name: "evil.example:9092"}
    for name in ("spark.jars", "spark.driver.extraJavaOptions", "moldau.spark.master", "spark.files"):
        yield {**sink, name: "http://evil/x.jar"}
    for name in ("py-io-impl", "py-catalog-impl", "s3.signer.uri"):
        yield {
            "connector.class": "IcebergSinkConnector",
            "topics": "t",
            "iceberg.tables": "a.b",
            "iceberg.catalog.uri": "https://catalogue.example",
            f"iceberg.catalog.{name}": "os.system",
        }


def urls(folder: Path) -> Iterator[dict[str, str]]:
    for url in ("file:///etc/passwd", "gopher://x/", "ftp://x/", "http:///x", "x", "//x"):
        yield {"connector.class": "HttpSinkConnector", "topics": "t", "http.url": url}
    for more in (
        "allowLoadLocalInfile=true",
        "local_infile=1",
        "socketFactory=evil.Class",
        "init_command=DROP",
    ):
        yield {
            "connector.class": "JdbcSinkConnector",
            "topics": "t",
            "connection.url": f"jdbc:mysql://db.example/x?{more}",
            "connection.password": SECRET,
        }


def test_each_is_refused_with_a_reason(worker: Worker, folder: Path) -> None:
    tried = 0
    for config in itertools.chain(paths(folder), hosts(folder), code(folder), urls(folder)):
        answer = worker.http.post("/connectors", json={"name": "hostile", "config": config})
        found: dict[str, Any] = answer.json()
        assert answer.status_code == 400, (config, answer.status_code, found)
        assert len(found["message"]) > 20, (config, found)
        assert SECRET not in answer.text, config
        tried += 1
    assert tried > 90
    assert worker.call("GET", "/connectors") == []


def test_a_secret_is_not_shown_when_a_server_refuses_it(worker: Worker) -> None:
    """Nothing listens on port 1: the error that is kept names the server, not the password."""
    config = {
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "database.hostname": "127.0.0.1",
        "database.port": "1",
        "database.user": "u",
        "database.password": SECRET,
        "topic.prefix": "p",
    }
    worker.call("POST", "/connectors", {"name": "shy", "config": config})
    wait_until(lambda: worker.task("shy")["state"] == "RESTARTING", lambda: worker.task("shy"))
    assert SECRET not in worker.http.get("/connectors/shy/status").text
    worker.call("DELETE", "/connectors/shy")
