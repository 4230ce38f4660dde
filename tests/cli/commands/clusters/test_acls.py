"""``moldau acls``: rules as sentences, the rule that decides, and what a refused program needs."""

# ruff: noqa: E501 -- a message of Kafka's tools stands in one line, as long as it is

from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner

from moldau.cli.commands.clusters.acls import acls, suggestions
from moldau.testing import Broker


@pytest.fixture
def run() -> Iterator[Callable[[str], tuple[int, str]]]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:root",
    }
    with Broker(settings) as broker:

        def invoke(words: str) -> tuple[int, str]:
            server = ["--bootstrap-server", broker.bootstrap_servers]
            result = CliRunner().invoke(acls, [*words.split(), *server])
            return result.exit_code, result.output

        yield invoke


@pytest.mark.slow
def test_add_check_list_and_remove(run: Callable[[str], tuple[int, str]]) -> None:
    ask = "check --user ann --operation describe --topic orders"
    assert run(ask) == (1, "no: no ACL allows it\n")
    rule = "--user ann --operation read --topic ord --prefixed"
    assert run(f"add {rule}") == (0, "Added User:ann may read topic ord…\n")
    assert run(ask) == (0, "yes: User:ann may read topic ord…\n")
    run("add --user * --operation describe --topic orders --deny")
    assert run(ask) == (1, "no: User:* may not describe topic orders\n")
    assert run("check --user root --operation delete --topic orders") == (
        0,
        "yes: it is one of super.users\n",
    )
    code, listed = run("list --user ann")
    assert code == 0
    assert "prefixed" in listed
    assert run(f"remove {rule}") == (0, "Removed User:ann may read topic ord…\n")
    assert "no such ACLs" in run("list --user ann")[1]


def test_a_resource_has_to_be_named(run: Callable[[str], tuple[int, str]]) -> None:
    assert run("add --user ann --operation read")[0] == 2
    assert run("add --user ann --operation read --topic t --group g")[0] == 2


def test_suggestions_are_the_fewest() -> None:
    line = (
        "INFO Principal = User:ann is Denied operation = {} from host = 127.0.0.1 on resource = {}:LITERAL:{} "
        "for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny"
    )
    lines = [
        line.format("DESCRIBE", "Topic", "orders"),
        line.format("READ", "Topic", "orders"),
        line.format("READ", "Topic", "orders"),
        line.format("READ", "Group", "g"),
        line.format("IDEMPOTENT_WRITE", "Cluster", "kafka-cluster"),
        "something else",
    ]
    assert suggestions(lines) == [
        "moldau acls add --user ann --operation read --topic orders",
        "moldau acls add --user ann --operation read --group g",
        "moldau acls add --user ann --operation idempotent_write --cluster",
    ]
