"""``moldau mirror``: flags, files, and what it says."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from moldau.cli.main import cli
from moldau.testing import Broker
from tests.mirror.flows import SETTINGS, content


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[Broker, Broker]]:
    with Broker(SETTINGS) as a, Broker(SETTINGS) as b:
        yield a, b


@pytest.fixture
def pair(brokers: tuple[Broker, Broker]) -> tuple[Broker, Broker]:
    for broker in brokers:
        broker.reset()
    a = brokers[0]
    a.create_topic("orders", partitions=2)
    for at in range(30):
        a.produce("orders", b"%d" % at, partition=at % 2)
    return brokers


def command(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["mirror", *arguments])


def addresses(pair: tuple[Broker, Broker]) -> list[str]:
    return ["--from", pair[0].bootstrap_servers, "--to", pair[1].bootstrap_servers]


def test_once_then_status_verify_promote_demote(pair: tuple[Broker, Broker]) -> None:
    a, b = pair
    target = ["-b", b.bootstrap_servers]
    assert "no topic" in command("status", *target).output
    done = command(*addresses(pair), "--once", "--log-level", "error", "--metrics-port", "0")
    assert done.exit_code == 0, done.output
    assert "moldau mirror ready: source->target" in done.output
    assert "/metrics" in done.output
    assert content(b, "orders") == content(a, "orders")
    found = json.loads(command("status", *target, "--from", a.bootstrap_servers, "--json").stdout)
    assert [(row["topic"], row["state"], row["lag"]) for row in found] == [("orders", "mirror", 0)]
    assert "orders" in command("status", *target).output
    assert "equal" in command("verify", *addresses(pair)).output
    promoted = command("promote", "orders", *target)
    assert "15, 15" in promoted.output
    again = command("promote", "orders", *target)
    assert again.exit_code == 1
    assert "no mirror" in again.output
    b.produce("orders", b"mine", partition=0)
    demoted = command("demote", "orders", "-b", a.bootstrap_servers, "--from", b.bootstrap_servers)
    assert demoted.exit_code == 0, demoted.output
    back = ["--from", b.bootstrap_servers, "--to", a.bootstrap_servers]
    assert command(*back, "--once", "--log-level", "error").exit_code == 0
    assert content(a, "orders") == content(b, "orders")


def test_once_ends_where_there_is_nothing_to_copy(pair: tuple[Broker, Broker]) -> None:
    done = command(*addresses(pair), "--topics", "nothing.*", "--once", "--log-level", "error")
    assert done.exit_code == 0, done.output


def test_a_file_of_properties(pair: tuple[Broker, Broker], tmp_path: Path) -> None:
    a, b = pair
    file = tmp_path / "mm2.properties"
    file.write_text(
        f"clusters=A,B\nA.bootstrap.servers={a.bootstrap_servers}\nB.bootstrap.servers={b.bootstrap_servers}\n"
        "A->B.enabled=true\nA->B.topics=orders\nA->B.topcis=typo\n"
    )
    done = command(str(file), "--mode", "translated", "--once", "--log-level", "error")
    assert done.exit_code == 0, done.output
    assert "A->B.topcis is not known" in done.output
    assert [r[1:] for r in content(b, "A.orders", 0)] == [r[1:] for r in content(a, "orders", 0)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "a:1"], "--to"),
        (["run"], "--from"),
        (["--from", "a:1", "--to", "b:1", "--topics", "a("], "regular expression"),
        (["--from", "a:1", "--to", "b:1", "--throttle", "fast"], "20MB"),
        (["promote", "a", "b", "--offset", "0:1"], "one topic"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    done = command(*arguments)
    assert done.exit_code == 2
    assert message in done.output
