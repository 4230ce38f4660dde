"""kafka-acls, by transcripts of Kafka's own tool."""

# ruff: noqa: E501 -- a message of Kafka's tools stands in one line, as long as it is

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.testing import Broker

_ORDERS = "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)"


@pytest.fixture
def acls(tool: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Broker(settings) as broker:
        yield lambda *words, **options: tool(
            "kafka-acls", "--bootstrap-server", broker.bootstrap_servers, *words, **options
        )


def test_add_list_and_remove(acls: Callable[..., Any]) -> None:
    assert acls("--list").stdout == ""
    words = "--add --allow-principal User:alice --operation Read --operation Describe --topic orders"
    said = acls(*words.split()).stdout
    assert said == (
        f"Adding ACLs for resource `{_ORDERS}`: \n"
        " \t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)\n"
        "\t(principal=User:alice, host=*, operation=DESCRIBE, permissionType=ALLOW)\n\n"
    )
    words = "--add --allow-principal User:alice --producer --topic orders --transactional-id tx --idempotent"
    said = acls(*words.split()).stdout
    assert (
        f"Acl (pattern={_ORDERS}, entry=(principal=User:alice, host=*, operation=DESCRIBE, "
        "permissionType=ALLOW)) already exists.\n"
    ) in said
    assert "name=kafka-cluster" in said
    assert "resourceType=TRANSACTIONAL_ID, name=tx" in said
    assert acls("--list", "--topic", "orders").stdout == (
        f"Current ACLs for resource `{_ORDERS}`:\n"
        "\t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW)\n"
        "\t(principal=User:alice, host=*, operation=DESCRIBE, permissionType=ALLOW)\n"
        "\t(principal=User:alice, host=*, operation=WRITE, permissionType=ALLOW)\n"
        "\t(principal=User:alice, host=*, operation=CREATE, permissionType=ALLOW)\n\n"
    )
    assert acls("--list", "--topic", "nope").stdout == ""
    assert acls("--remove", "--topic", "orders", "--force").stdout == ""
    assert acls("--list", "--topic", "orders").stdout == ""


def test_prefixes_principals_and_questions(acls: Callable[..., Any]) -> None:
    words = (
        "--add --allow-principal User:bob --consumer --topic pay --resource-pattern-type prefixed --group g"
    )
    assert "name=g, patternType=PREFIXED" in acls(*words.split()).stdout
    matching = acls("--list", "--topic", "payments", "--resource-pattern-type", "match").stdout
    assert "name=pay, patternType=PREFIXED" in matching
    assert acls("--list", "--principal", "User:bob").stdout.startswith("ACLs for principal `User:bob`\n")
    removal = ("--remove", "--group", "g", "--resource-pattern-type", "prefixed")
    assert "Are you sure" in acls(*removal, stdin=b"n\n").stdout
    assert "name=g" in acls("--list").stdout
    acls(*removal, stdin=b"y\n")
    assert "name=g" not in acls("--list").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "--add --allow-principal User:alice --operation Create --group g",
            "ResourceType GROUP only supports operations [READ, ALL, DESCRIBE_CONFIGS, DELETE, ALTER_CONFIGS, "
            "DESCRIBE]",
        ),
        (
            "--add --operation Read --topic orders",
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.",
        ),
        (
            "--add --allow-principal User:alice --operation Foo --topic orders",
            "ResourceType TOPIC only supports operations [READ, ALL, CREATE, ALTER, DESCRIBE_CONFIGS, DELETE, "
            "ALTER_CONFIGS, DESCRIBE, WRITE]",
        ),
    ],
)
def test_complaints(acls: Callable[..., Any], words: str, message: str) -> None:
    result = acls(*words.split())
    assert (result.code, result.errors[0]) == (1, message)


def test_a_principal_without_a_type(acls: Callable[..., Any]) -> None:
    result = acls("--add", "--allow-principal", "alice", "--operation", "Read", "--topic", "orders")
    assert result.code == 1
    assert result.lines[0] == (
        "Error while executing ACL command: expected a string in format principalType:principalName but got "
        "alice"
    )


def test_the_transcript(tool: Callable[..., Any], transcript: Callable[[str], list[Any]]) -> None:
    """All calls of a file, one after the other; in which order ACLs are listed is chance there and here."""
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Broker(settings) as broker:
        for block in transcript("acls"):
            words = [word.replace("BOOTSTRAP", broker.bootstrap_servers) for word in block.words]
            result = tool(*words, stdin=block.stdin)
            told = f"{block.command}\n{result.stdout}\n{result.stderr}"
            assert _alike(result.lines) == _alike(block.stdout), told
            for line in block.stderr:
                assert _operations(line) in map(_operations, result.errors), told
            assert result.code == block.code, told


def _alike(lines: list[str]) -> list[str]:
    return sorted(line.strip() for line in lines if line.strip())


def _operations(line: str) -> str:
    """A list of operations is a set of Java's: in no order."""
    head, found, rest = line.partition("[")
    return head + found + ", ".join(sorted(rest.rstrip("]").split(", ")))
