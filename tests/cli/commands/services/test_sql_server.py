"""``moldau sql-server`` as a process, and ``moldau sql --server`` that talks to it."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from moldau.cli.commands.programs.sql import sql
from moldau.cli.commands.services.sql_server import sql_server
from moldau.testing import Broker
from tests.shared.services import service_process

CLICKS = (
    "CREATE STREAM clicks (user STRING KEY, page STRING)"
    " WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON', PARTITIONS=1);"
    " INSERT INTO clicks VALUES ('ann', '/a'), ('ann', '/b');"
)


@pytest.mark.slow
def test_a_server_and_its_shell(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("ann:secret\n")
    options = ("--port", "0", "--user-file", users, "--home", tmp_path)
    with (
        Broker() as broker,
        service_process("sql-server", *options, "-b", broker.bootstrap_servers) as (process, url),
    ):
        server = ["--server", url, "--user", "ann:secret"]
        made = CliRunner().invoke(sql, ["-e", CLICKS, *server])
        assert made.output.splitlines() == ["Stream CLICKS created"]
        count = "SELECT user, COUNT(*) AS n FROM clicks GROUP BY user;"
        counted = CliRunner().invoke(sql, ["-e", count, "--json", *server])
        assert json.loads(counted.output) == {"USER": "ann", "N": 2}
        refused = CliRunner().invoke(sql, ["-e", "SHOW STREAMS;", *server[:2]])
        assert (refused.exit_code, "Unauthorized" in refused.output) == (1, True)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (0, "moldau sql-server stopped\n")


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("")
    refused = CliRunner().invoke(sql_server, ["--tls-key", str(key)])
    assert "give --tls-cert too" in refused.output


def test_queries_log_in_as_the_server_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=a\nsasl.password=s\n")
    found: list[Any] = []
    monkeypatch.setattr("moldau.cli.commands.services.sql_server._run", found.append)
    given = ["--command-config", str(file), "--run-option=--workers=2"]
    assert CliRunner().invoke(sql_server, given).exit_code == 0
    (options,) = found
    assert options.runner._options == ("--command-config", str(file), "--workers=2")
