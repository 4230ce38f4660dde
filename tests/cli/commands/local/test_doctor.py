from pathlib import Path
from typing import Any

from moldau.testing import Broker


def test_all_is_well(moldau: Any, moldau_json: Any, broker: Broker, tmp_path: Path) -> None:
    moldau("topics", "create", "orders")
    findings = moldau_json("doctor", "-b", broker.bootstrap_servers, "--data-dir", str(tmp_path))
    subjects = {f["subject"]: f for f in findings}
    assert subjects["cluster"]["severity"] == "ok"
    assert "answers" in subjects["broker 1"]["text"]
    assert "1 in 1 topic(s)" in subjects["partitions"]["text"]
    assert all(set(f) == {"severity", "subject", "text", "next_step"} for f in findings)
    assert "0 problem(s)" in moldau("doctor").stdout


def test_problems_end_with_1_and_a_next_step(moldau: Any, moldau_json: Any, tmp_path: Path) -> None:
    findings = moldau_json("doctor", "-b", "127.0.0.1:1", code=1)
    (problem,) = [f for f in findings if f["severity"] == "problem"]
    assert problem["next_step"]
    (tmp_path / "meta.properties").write_text("x=y")
    assert "1 problem(s)" in moldau("doctor", "--data-dir", str(tmp_path), code=1).stdout


def test_a_port_in_use(moldau: Any, broker: Broker) -> None:
    port = broker.bootstrap_servers.rpartition(":")[2]
    assert "cannot be bound" in moldau("doctor", "--port", port).stdout


def test_a_cluster_with_tls_and_a_login(moldau_json: Any, secured: Any) -> None:
    found = moldau_json("doctor", "-b", secured.address, "--command-config", str(secured.config_file))
    assert {each["subject"]: each["severity"] for each in found}["cluster"] == "ok"
    found = moldau_json("doctor", "-b", secured.address, "-X", "security.protocol=SSL", code=1)
    (problem,) = [each for each in found if each["severity"] == "problem"]
    assert "not trusted" in problem["text"]
    assert "--command-config" in problem["next_step"]


def test_security_of_a_file(moldau: Any, moldau_json: Any, tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(f"listeners=PLAINTEXT://:9092\nlog.dirs={tmp_path}/data\n")
    findings = moldau_json("doctor", "security", "--config", str(path), code=1)
    problems = {f["subject"] for f in findings if f["severity"] == "problem"}
    assert problems == {"listener PLAINTEXT", "authorizer"}
    local = ("--set", "listeners=PLAINTEXT://127.0.0.1:9092")
    assert "0 problem(s)" in moldau("doctor", "security", "--config", str(path), *local).stdout
