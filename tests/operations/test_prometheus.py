"""A real Prometheus with the rules of deploy/: alerts fire when something breaks and clear when it is mended.

The rules are the ones that operators get; only their waiting times are shortened.
"""

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.cli import certificates
from tests.operations.processes import broker, moldau, running
from tests.shared.ports import free_port
from tests.shared.small_disk import mounted
from tests.shared.waiting import wait_until

RULES = Path(__file__).parents[2] / "deploy/prometheus"
PATIENCE_SECONDS = 180
pytestmark = pytest.mark.timeout(900)


@dataclass
class Scene:
    stack: ExitStack
    folder: Path
    disk: Path
    prometheus: str
    main: int
    other: int
    other_settings: dict[str, str]
    certificate: Path
    worker: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.main}"

    def ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.prometheus}/api/v1/{path}", timeout=60) as answer:
            return json.load(answer)["data"]

    def query(self, text: str) -> list[Any]:
        found: list[Any] = self.ask(f"query?query={urllib.parse.quote(text)}")["result"]
        return found

    def fires(self, alert: str) -> bool:
        firing = [each for each in self.ask("alerts")["alerts"] if each["state"] == "firing"]
        return alert in {each["labels"]["alertname"] for each in firing}

    def expect(self, alert: str) -> None:
        wait_until(lambda: self.fires(alert), alert, seconds=PATIENCE_SECONDS)

    def expect_clear(self, alert: str) -> None:
        wait_until(lambda: not self.fires(alert), f"{alert} is over", seconds=PATIENCE_SECONDS)


def issue(folder: Path, days: int) -> Path:
    """A certificate for this machine that is good for so many days."""
    authority = certificates.Authority.open(folder) if (folder / "ca.pem").exists() else None
    authority = authority or certificates.Authority.create(folder)
    return authority.issue("broker", hosts=["127.0.0.1"], days=days)


def write_configuration(folder: Path, brokers: list[int], services: list[int], lag: int) -> Path:
    for name in ("recording-rules.yml", "alert-rules.yml"):
        text = re.sub(r"for: \d+[ms]\w*", "for: 3s", (RULES / name).read_text())
        (folder / name).write_text(text)
    config = (RULES / "prometheus.yml").read_text().replace("15s", "1s")
    for old, ports in (("127.0.0.1:9404", brokers), ("127.0.0.1:8081", services), ("127.0.0.1:9405", [lag])):
        config = config.replace(f'"{old}"', ", ".join(f'"127.0.0.1:{port}"' for port in ports))
    path = folder / "prometheus.yml"
    path.write_text(config)
    return path


def write_connector(folder: Path, address: str, port: int) -> list[Path]:
    """A worker, and a source whose file is a directory: it fails."""
    (folder / "input").mkdir()
    converter = "org.apache.kafka.connect.storage.StringConverter"
    texts = {
        "worker": {
            "bootstrap.servers": address,
            "key.converter": converter,
            "value.converter": converter,
            "offset.storage.file.filename": folder / "connect.offsets",
            "listeners": f"http://127.0.0.1:{port}",
        },
        "files": {
            "name": "files",
            "connector.class": "FileStreamSource",
            "file": folder / "input",
            "topic": "lines",
        },
    }
    paths = [folder / f"{name}.properties" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text("".join(f"{key}={value}\n" for key, value in text.items()))
    return paths


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("Prometheus is not installed (Debian: apt install prometheus)")
    folder = tmp_path_factory.mktemp("prometheus")
    ports = [free_port() for _ in range(9)]
    main, main_metrics, tls, other, other_metrics, registry, worker, lag, web = ports
    certificate = issue(folder / "ca", 3)
    with ExitStack() as stack:
        disk = stack.enter_context(mounted(folder / "disk", "400m"))
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{main},SSL://127.0.0.1:{tls}",
            "listener.name.ssl.ssl.keystore.type": "PEM",
            "listener.name.ssl.ssl.keystore.location": str(certificate),
            "moldau.metrics.port": str(main_metrics),
            "group.initial.rebalance.delay.ms": "0",
        }
        other_settings = {"moldau.metrics.port": str(other_metrics)}
        stack.enter_context(broker(disk / "main", main, settings))
        address = f"127.0.0.1:{main}"
        stack.enter_context(running(folder / "registry.log", "registry", "--port", registry, "-b", address))
        stack.enter_context(running(folder / "lag.log", "lag", "--every", 1, "--port", lag, "-b", address))
        connect = ("connect-standalone", *write_connector(folder, address, worker))
        stack.enter_context(running(folder / "connect.log", *connect))
        path = write_configuration(folder, [main_metrics, other_metrics], [registry, worker], lag)
        command = [program, f"--config.file={path}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        command.append(f"--web.listen-address=127.0.0.1:{web}")
        with (folder / "prometheus.log").open("wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out)
        stack.callback(lambda: (process.terminate(), process.wait(60)))
        url = f"http://127.0.0.1:{web}"
        yield Scene(stack, folder, disk, url, main, other, other_settings, certificate, worker)


def test_brokers_and_services_are_scraped_and_a_dead_broker_is_noticed(scene: Scene) -> None:
    with broker(scene.folder / "other", scene.other, scene.other_settings) as process:
        wait_until(lambda: len(scene.query("up == 1")) == 5, seconds=PATIENCE_SECONDS)
        wait_until(lambda: scene.query("moldau_web_requests_requests_total"), seconds=PATIENCE_SECONDS)
        scene.expect_clear("MoldauBrokerDown")
        process.kill()
        scene.expect("MoldauBrokerDown")
    with broker(scene.folder / "other", scene.other, scene.other_settings):
        scene.expect_clear("MoldauBrokerDown")


def test_a_disk_that_fills(scene: Scene) -> None:
    wait_until(lambda: scene.query("moldau:disk_free:ratio > 0.5"), seconds=PATIENCE_SECONDS)
    assert not scene.fires("MoldauDiskAlmostFull")
    ballast = scene.disk / "ballast"
    free = shutil.disk_usage(scene.disk).free
    with ballast.open("wb") as file:
        for _ in range((free - 50_000_000) // 1_000_000):
            file.write(bytes(1_000_000))
    scene.expect("MoldauDiskAlmostFull")
    scene.expect("MoldauDiskRefusesProducers")
    moldau("topics", "create", "late", "-b", scene.address, "--if-not-exists")
    delivered: list[object] = []
    producer = Producer({"bootstrap.servers": scene.address})
    producer.produce("late", b"waits", on_delivery=lambda error, _: delivered.append(error))
    producer.poll(3)
    assert delivered == []
    ballast.unlink()
    scene.expect_clear("MoldauDiskAlmostFull")
    scene.expect_clear("MoldauDiskRefusesProducers")
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert delivered == [None], "the producer has only waited"


def test_a_group_that_stops(scene: Scene) -> None:
    moldau("topics", "create", "orders", "-b", scene.address, "--if-not-exists")
    producer = Producer({"bootstrap.servers": scene.address})
    for at in range(20):
        producer.produce("orders", b"%d" % at)
    assert producer.flush(PATIENCE_SECONDS) == 0
    consumer = Consumer({"bootstrap.servers": scene.address, "group.id": "billing"})
    for offset in (5, 8):  # a shape needs two points
        wait_until(lambda offset=offset: commits(consumer, offset), seconds=PATIENCE_SECONDS)
        lag = f'moldau_lag_group_lag{{group="billing"}} == {20 - offset}'
        wait_until(lambda lag=lag: scene.query(lag), lag, seconds=PATIENCE_SECONDS)
    scene.expect("MoldauGroupNotReading")
    assert commits(consumer, 20)
    scene.expect_clear("MoldauGroupNotReading")
    consumer.close()


def commits(consumer: Consumer, offset: int) -> bool:
    from confluent_kafka import KafkaException

    try:
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    except KafkaException:
        return False  # the coordinator is being made
    return True


def test_a_connector_that_fails(scene: Scene) -> None:
    scene.expect("MoldauConnectorFailed")
    (scene.folder / "input").rmdir()
    (scene.folder / "input").write_text("one\ntwo\n")
    again = f"http://127.0.0.1:{scene.worker}/connectors/files/restart?includeTasks=true&onlyFailed=true"
    urllib.request.urlopen(urllib.request.Request(again, method="POST"), timeout=60).close()
    scene.expect_clear("MoldauConnectorFailed")
    written = 'kafka_connect_source_task_metrics_source_record_write_total{connector="files"} == 2'
    wait_until(lambda: scene.query(written), written, seconds=PATIENCE_SECONDS)


def test_a_certificate_that_is_about_to_end(scene: Scene) -> None:
    scene.expect("MoldauCertificateExpires")
    (found,) = scene.query("moldau_security_certificate_expiresinseconds")
    assert timedelta(seconds=float(found["value"][1])) < timedelta(days=4)
    issue(scene.certificate.parent, 90)  # the broker notices the file by itself
    scene.expect_clear("MoldauCertificateExpires")
