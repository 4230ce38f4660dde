"""The demo's programs reach a cluster with TLS and a login by the arguments that ``moldau up`` hands on."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from moldau.cli.session import client_settings, client_settings_arguments, client_settings_options
from moldau.cli.up.services import UpOptions, cluster_services
from moldau.pipelines.demo import producer, runner


def test_the_options_are_handed_on(secured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    @click.command()
    @client_settings_options
    def command() -> None:
        found.append((client_settings_arguments(), client_settings()))

    monkeypatch.chdir(secured.config_file.parent)
    command.main(["--command-config", secured.config_file.name, "-X", "a=b"], standalone_mode=False)
    arguments, settings = found[0]
    assert arguments == ("--command-config", str(secured.config_file), "-X", "a=b")
    assert settings == {**secured.settings, "a": "b"}


@pytest.mark.slow
def test_the_producer_logs_in(secured: Any) -> None:
    command = [sys.executable, "-m", "moldau.pipelines.demo.producer", "--bootstrap-servers", secured.address]
    process = subprocess.Popen(
        [*command, "--command-config", str(secured.config_file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(producer.READY)
        process.terminate()
        out, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (0, "")
        assert "moldau demo producer stopped" in out
    finally:
        process.kill()
        secured.broker.reset()


def test_the_pipeline_gets_the_settings_as_options(
    secured: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran = []
    monkeypatch.setattr(runner, "run", lambda options, file, should_stop: ran.append(options))
    monkeypatch.setenv("MOLDAU_COMMAND_CONFIG", str(secured.config_file))
    assert runner.main(["--home", str(tmp_path), "-X", "sasl.mechanism=PLAIN"]) == 0
    wanted = {f"kafka.{name}": value for name, value in secured.settings.items()}
    assert ran[0].cluster == {"kafka.bootstrap.servers": "127.0.0.1:9092", **wanted}


@pytest.mark.parametrize("wrong", [("-X", "a"), ("--command-config", "/not/there")])
def test_wrong_settings_are_one_line(
    wrong: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert producer.main(wrong) == 1
    assert runner.main(["--home", str(tmp_path), *wrong]) == 1
    said = capsys.readouterr().err
    assert (said.count("Error: "), said.count("\n")) == (2, 2)


def test_a_cluster_has_directories_and_ports_of_its_own(tmp_path: Path) -> None:
    options = UpOptions(port=0, data_dirs=(str(tmp_path),), settings=("num.partitions=3",), brokers=2)
    first, second = cluster_services(options)
    assert (first.name, second.name) == ("broker-1", "broker-2")
    assert str(tmp_path / "broker-2") in second.command
    for service, number in ((first, 1), (second, 2)):
        settings = [
            value
            for name, value in zip(service.command, service.command[1:], strict=False)
            if name == "--set"
        ]
        assert settings == [
            f"node.id={number}",
            f"moldau.metadata.dir={tmp_path / 'metadata'}",
            "num.partitions=3",
        ]
    (on_zookeeper,) = cluster_services(UpOptions(port=0, brokers=1, zookeeper="h:2181/kafka"))
    assert "zookeeper.connect=h:2181/kafka" in on_zookeeper.command
