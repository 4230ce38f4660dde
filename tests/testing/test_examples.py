"""The examples run: the quickstart of the README, and the one that docs/testing.md explains."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.testing import Broker

PROJECT = Path(__file__).parents[2]
EXAMPLES = PROJECT / "examples"


def run(*command: str) -> str:
    ended = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, check=False, cwd=PROJECT
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.slow
def test_the_quickstart(moldau_broker: Broker) -> None:
    said = run("examples/quickstart.py", moldau_broker.bootstrap_servers)
    assert said == "[b'ahoj 0', b'ahoj 1', b'ahoj 2']\n"
    assert len(moldau_broker.records("greetings")) == 3


def test_the_readme_shows_the_quickstart() -> None:
    example = (EXAMPLES / "quickstart.py").read_text().splitlines()
    (shown,) = re.findall(
        r"```python\n(from confluent_kafka .*?)```", (PROJECT / "README.md").read_text(), re.S
    )
    missing = [line for line in shown.splitlines() if line not in example]
    assert missing == ['servers = {"bootstrap.servers": "127.0.0.1:9092"}']


@pytest.mark.slow
def test_the_tests_of_the_example() -> None:
    said = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "examples/test_with_moldau.py")
    count = sum(
        isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        for node in ast.parse((EXAMPLES / "test_with_moldau.py").read_text()).body
    )
    assert re.search(rf"\b{count} passed|^\.{{{count}}} ", said, re.M), said


def test_every_snippet_of_the_guide_compiles_and_names_what_exists() -> None:
    import moldau.testing

    guide = (PROJECT / "docs" / "testing.md").read_text()
    snippets = re.findall(r"```python\n(.*?)```", guide, re.S)
    assert snippets
    for snippet in snippets:
        for node in ast.walk(ast.parse(snippet)):
            if isinstance(node, ast.ImportFrom) and node.module == "moldau.testing":
                assert {alias.name for alias in node.names} <= set(moldau.testing.__all__)
            is_of_broker = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if is_of_broker and node.value.id in ("broker", "moldau_broker") and node.attr != "clock":
                assert hasattr(Broker, node.attr), node.attr
