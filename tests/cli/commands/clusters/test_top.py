"""``moldau top`` against a broker with metrics, and one that is not there."""

import json

from click.testing import CliRunner

from moldau.cli.main import cli
from moldau.testing import Broker


def test_brokers_are_shown_as_json_and_as_tables() -> None:
    with Broker({"moldau.metrics.port": 0}) as broker:
        broker.create_topic("orders", 2)
        monitoring = broker.node.monitoring
        assert monitoring is not None
        assert monitoring.address is not None
        address = "{}:{}".format(*monitoring.address)
        arguments = ["top", address, "127.0.0.1:1", "--every", "0.2", "--count", "1"]
        result = CliRunner().invoke(cli, [*arguments, "--json"])
        assert result.exit_code == 0, result.output
        here, nobody = json.loads(result.output)["brokers"]
        assert (here["leaders"], here["is_controller"], here["error"]) == (2, True, "")
        assert nobody["error"]
        shown = CliRunner().invoke(cli, arguments).output
        assert "Brokers" in shown
        assert "Busiest topics" in shown
