"""Rolling restarts: the order, what is waited for, and how a broker is told."""

import asyncio
import sys
from pathlib import Path

import click
import pytest

from moldau.cli.commands.clusters.cluster_restart import by_command, by_signal, out_of_sync, restart_order
from moldau.client.admin.descriptions import ClusterDescription, PartitionDescription, TopicDescription
from moldau.client.transport.cluster import Broker

BROKERS = tuple(Broker(each, "127.0.0.1", 9091 + each, None) for each in (1, 2, 3))
DESCRIBED = ClusterDescription("id", 1, BROKERS)


def test_the_controller_is_the_last() -> None:
    assert [each.node_id for each in restart_order(DESCRIBED, ())] == [2, 3, 1]
    assert [each.node_id for each in restart_order(DESCRIBED, (3, 1, 3))] == [3, 1]
    with pytest.raises(click.ClickException, match="there is no broker 9"):
        restart_order(DESCRIBED, (9,))


def test_what_is_not_in_sync() -> None:
    partitions = (
        PartitionDescription(0, 1, 0, (1, 2), (1, 2), ()),
        PartitionDescription(1, 1, 0, (1, 2), (1,), ()),
        PartitionDescription(2, -1, 0, (3,), (), ()),
    )
    assert out_of_sync([TopicDescription("t", bytes(16), False, partitions)]) == ["t-1", "t-2"]


def test_a_command_for_each_broker(tmp_path: Path) -> None:
    told = tmp_path / "told"
    script = "import sys; open(sys.argv[1], 'w').write(' '.join(sys.argv[2:]))"
    command = f'{sys.executable} -c "{script}" {told} {{id}} {{host}}:{{port}}'
    asyncio.run(by_command(command)(BROKERS[1]))
    assert told.read_text() == "2 127.0.0.1:9093"
    with pytest.raises(click.ClickException, match="exit code 3"):
        asyncio.run(by_command(f'{sys.executable} -c "raise SystemExit(3)"')(BROKERS[0]))
    with pytest.raises(click.ClickException, match="cannot be run"):
        asyncio.run(by_command("/no/such/program")(BROKERS[0]))
    with pytest.raises(click.UsageError):
        by_command("")


def test_only_brokers_of_ours_get_a_signal(tmp_path: Path) -> None:
    (tmp_path / "up").mkdir()
    with pytest.raises(click.ClickException, match="names no process of broker 1"):
        asyncio.run(by_signal(tmp_path)(BROKERS[0]))
    (tmp_path / "up" / "broker-1.pid").write_text("1\n")
    with pytest.raises(click.ClickException, match="is no broker"):
        asyncio.run(by_signal(tmp_path)(BROKERS[0]))
