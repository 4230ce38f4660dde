"""The first MirrorMaker, with its flags."""

from io import BytesIO
from pathlib import Path

import pytest

from moldau.cli.kafka_tools.clusters.mirror_maker import TOOL, main, settings_of
from moldau.cli.kafka_tools.framework.exceptions import ToolError
from moldau.cli.kafka_tools.framework.options import OptionError
from moldau.cli.kafka_tools.framework.tool import Console
from moldau.testing import Broker
from tests.mirror.flows import SETTINGS, committed


def files(tmp_path: Path, source: str, target: str) -> list[str]:
    (tmp_path / "consumer.properties").write_text(
        f"bootstrap.servers={source}\ngroup.id=copiers\nauto.offset.reset=earliest\n"
    )
    (tmp_path / "producer.properties").write_text(f"bootstrap.servers={target}\nacks=all\n")
    return [
        "--consumer.config",
        str(tmp_path / "consumer.properties"),
        "--producer.config",
        str(tmp_path / "producer.properties"),
    ]


def test_topics_are_copied_under_their_names(tmp_path: Path) -> None:
    with Broker(SETTINGS) as a, Broker(SETTINGS) as b:
        for topic in ("orders", "payments", "other"):
            a.create_topic(topic)
            a.produce(topic, topic.encode())
        console = Console(BytesIO(), BytesIO(), BytesIO())
        arguments = files(tmp_path, a.bootstrap_servers, b.bootstrap_servers)
        assert main([*arguments, "--whitelist", "orders,pay.*", "--num.streams", "2", "--once"], console) == 0
        assert [record[3] for record in committed(b, "orders")] == [b"orders"]
        assert [record[3] for record in committed(b, "payments")] == [b"payments"]
        assert set(b.topics()) == {"orders", "payments", "__consumer_offsets", "__transaction_state"}


def test_the_flags_as_a_flow(tmp_path: Path) -> None:
    given = TOOL.options.parse([*files(tmp_path, "a:1", "b:1"), "--whitelist", '"x|y"'])
    settings = settings_of(given)
    (flow,) = settings.flows
    assert flow.name == "copiers->target"
    assert flow.policy.identity
    assert "x" in flow.topics
    assert "xy" not in flow.topics
    assert (flow.start, flow.emit_heartbeats, flow.emit_offset_syncs) == ("earliest", False, False)
    assert settings.unknown == ()


def test_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(OptionError):
        main([], Console(BytesIO(), BytesIO(), BytesIO()))
    with pytest.raises(ToolError, match="whitelist"):
        settings_of(TOOL.options.parse(files(tmp_path, "a:1", "b:1")))
