"""``moldau roles`` against a broker with an authorizer."""

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner

from moldau.cli.main import cli
from moldau.testing import Broker


@pytest.fixture
def run() -> Iterator[Callable[[str], tuple[int, str]]]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Broker(settings) as broker:

        def invoke(words: str) -> tuple[int, str]:
            server = ["--bootstrap-server", broker.bootstrap_servers]
            result = CliRunner().invoke(cli, [*words.split(), *server])
            return result.exit_code, result.output

        yield invoke


def test_a_role_and_its_members(run: Callable[[str], tuple[int, str]]) -> None:
    check = "acls check --user ann --operation read --topic orders"
    code, said = run("roles grant analyst --operation read --topic orders")
    assert (code, said) == (0, "Added Role:analyst may read topic orders\n")
    assert run(check)[0] == 1
    code, said = run("roles join analyst ann")
    assert code == 0
    assert said.splitlines() == [
        "Added User:ann as one who has the role analyst",
        "Added User:ann may read topic orders",
    ]
    assert run(check) == (0, "yes: User:ann may read topic orders\n")
    assert "Nothing had to be changed" in run("roles join analyst ann")[1]
    listed = json.loads(run("roles list --json")[1])
    assert listed == [{"role": "analyst", "rights": ["may read topic orders"], "members": ["User:ann"]}]
    assert "analyst" in run("roles list")[1]

    run("acls remove --user ann --operation read --topic orders")
    assert run("roles mend") == (0, "Added User:ann may read topic orders\n")
    assert run("roles leave analyst ann")[0] == 0
    assert run(check)[0] == 1
    run("roles join analyst ann")
    assert run("roles revoke analyst --operation read --topic orders")[0] == 0
    assert run(check)[0] == 1
    assert run("roles delete analyst")[0] == 0
    assert "no roles" in run("roles list")[1]
    assert "no such ACLs" in run("acls list")[1]


def test_wrong_usage(run: Callable[[str], tuple[int, str]]) -> None:
    assert run("roles join a:b ann")[0] == 2
    assert run("roles grant analyst --operation read")[0] == 2
