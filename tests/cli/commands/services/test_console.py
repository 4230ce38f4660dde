"""``moldau console``: its start, its options, and what it refuses."""

import signal
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from moldau.cli.commands.services.console import console
from moldau.testing import Broker
from tests.shared.services import service_process


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "add --login, or --open"),
        (["--login"], "asks nobody who they are"),
        (["--mask", "nonsense"], "is no mask"),
        (["--topic-pattern", "("], "no regular expression"),
        (["--name", "a/b"], "letters, digits"),
        (["--tls-key", __file__], "give --tls-cert too"),
        (["-X", "security.protocol=NONSENSE"], "security.protocol is one of"),
        (["-X", "security.protocol=SASL_SSL", "-X", "sasl.username=a"], "sasl.mechanism"),
    ],
)
def test_what_cannot_be_is_said_at_once(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(console, ["--port", "0", *arguments])
    assert (result.exit_code, words in result.output) == (2, True), result.output


def test_a_file_of_clusters_that_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "clusters.toml"
    file.write_text('[[cluster]]\nname = "a"\n')
    result = CliRunner().invoke(console, ["--port", "0", "--clusters", str(file)])
    assert (result.exit_code, "bootstrap_servers is missing" in result.output) == (2, True)
    assert str(file) in result.output


@pytest.mark.slow
def test_it_serves_until_it_is_stopped(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("orders")
    audit = tmp_path / "audit.jsonl"
    options = ("--port", "0", "-b", broker.bootstrap_servers, "--audit-file", audit)
    ready = r"^moldau console ready: (http://127\.0\.0\.1:\d+) \(local\)\n"
    with service_process("console", *options, ready=ready) as (process, url):
        with httpx.Client(base_url=url, timeout=60, trust_env=False, follow_redirects=True) as http:
            assert "orders" in http.get("/c/local/topics").text
            assert http.get("/").url.path == "/c/local"
            assert http.get("/c/local/topics/orders/messages/download").status_code == 200
        assert '"action": "download"' in audit.read_text()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "moldau console stopped\n", "")
