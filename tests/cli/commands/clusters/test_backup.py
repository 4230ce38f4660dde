"""``moldau backup``: a broker and a registry saved, checked and brought back by commands."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from moldau.cli.main import cli
from moldau.client.registry.schema_registry import RegistryClient
from moldau.testing import Broker
from tests.mirror.flows import SETTINGS, content


@pytest.fixture(scope="module")
def other() -> Iterator[Broker]:
    with Broker(SETTINGS) as broker:
        yield broker


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, ["backup", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


@pytest.mark.slow
def test_create_list_verify_restore_prune(broker: Broker, other: Broker, tmp_path: Path) -> None:
    other.reset()
    there = tmp_path / "backup"
    source, target = ("-b", broker.bootstrap_servers), ("-b", other.bootstrap_servers)
    assert "no backup" in run("list", there).output
    assert "no backup" in run("restore", there, *target, code=1).output
    broker.create_topic("orders", partitions=2)
    broker.create_topic("noise")
    for at in range(30):
        broker.produce("orders", b"%d" % at, partition=at % 2)
    assert "1 topics" in run("create", there, *source, "--exclude", "noise").output
    broker.produce("orders", b"more", partition=0)
    second = json.loads(run("create", there, *source, "--exclude", "noise", "--json").stdout)
    assert 0 < second["new_bytes"] < second["size_bytes"]
    rows = json.loads(run("list", there, "--json").stdout)
    assert [row["topics"] for row in rows] == [1, 1]
    assert rows[0]["run"] in run("list", there).output
    assert "no problems" in run("verify", there).output

    done = json.loads(run("restore", there, *target, "--json").stdout)
    assert done["topics"] == {"orders": [16, 15]}
    assert content(other, "orders") == content(broker, "orders")
    assert "exists already" in run("restore", there, *target, code=1).output
    renamed = run("restore", there, *target, "--run", rows[0]["run"], "--rename", "orders=first")
    assert "1 topics" in renamed.output
    assert len(content(other, "first")) == 30
    assert "Forgot 1 runs, deleted 0 files" in run("prune", there, "--keep", 1).output
    (damaged, *_) = there.rglob("*.log")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert "1 problem" in run("verify", there, code=1).output


@pytest.mark.slow
def test_schemas_come_back_with_their_ids(
    broker: Broker, other: Broker, registry: str, serve_registry, tmp_path: Path
) -> None:
    other.reset()
    with RegistryClient(registry) as client:
        client.register("unused-value", '"int"')
        client.delete_version("unused-value", 1)
        schema_id = client.register("orders-value", '"string"')
    broker.create_topic("orders")
    run("create", tmp_path, "-b", broker.bootstrap_servers, "-r", registry)
    with serve_registry(topic="_second", group_id="second") as url:
        done = run("restore", tmp_path, "-b", other.bootstrap_servers, "-r", url, "--json")
        assert json.loads(done.stdout)["schemas"] == 2
        with RegistryClient(url) as client:
            assert client.by_id(schema_id).text == '"string"'
    assert "_schemas" not in other.topics()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("restore", "x", "--run", "a", "--at", "now"), "not both"),
        (("restore", "x", "--only", "everything"), "--only knows topics"),
        (("create", "s3://"), "names no bucket"),
        (("create", "x", "--topics", "("), "not a regular expression"),
        (("prune", "x"), "--keep"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], said: str) -> None:
    assert said in run(*arguments, code=2).output
