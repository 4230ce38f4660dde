"""``moldau sql``: statements by argument, by file and by standard input."""

import json
from pathlib import Path

from click.testing import CliRunner

from moldau.cli.commands.programs.sql import sql
from moldau.testing import Broker

CLICKS = (
    "CREATE STREAM clicks (user STRING KEY, page STRING)"
    " WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON', PARTITIONS=1);"
    " INSERT INTO clicks VALUES ('ann', '/a'), ('ann', '/b');"
)


def test_statements(tmp_path: Path) -> None:
    with Broker() as broker:
        servers = ["-b", broker.bootstrap_servers]
        made = CliRunner().invoke(sql, ["-e", CLICKS, *servers])
        assert made.output.splitlines() == ["Stream CLICKS created", "2 rows written to clicks"]
        file = tmp_path / "count.sql"
        file.write_text("SELECT user, COUNT(*) AS n FROM clicks GROUP BY user;")
        counted = CliRunner().invoke(sql, [str(file), "--json", *servers])
        assert json.loads(counted.output) == {"USER": "ann", "N": 2}
        typed = CliRunner().invoke(sql, servers, input="SELECT page FROM clicks LIMIT 1;")
        assert "/a" in typed.output
        assert "/b" not in typed.output
        wrong = CliRunner().invoke(sql, ["-e", "SELECT nope FROM clicks", *servers])
        assert wrong.exit_code == 1
        assert "There is no column NOPE; there are PAGE" in wrong.output
