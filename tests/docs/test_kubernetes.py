"""The manifests: against the schemas of Kubernetes, what operators count on, and their scripts."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from moldau.base.settings import parse_properties
from moldau.cluster.configs.broker_configs import BROKER_SETTINGS

yaml: Any = pytest.importorskip("yaml")
FOLDER = Path(__file__).parents[2] / "deploy/kubernetes"
BASE = FOLDER / "base"


def resources(*, selectors: bool = True) -> list[dict[str, Any]]:
    """Everything of the base; with the labels that kustomize adds."""
    found = []
    labels = {"app.kubernetes.io/name": "moldau"}
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    assert listed["labels"] == [{"pairs": labels, "includeSelectors": True, "includeTemplates": True}]
    for name in listed["resources"]:
        found += [each for each in yaml.safe_load_all((BASE / name).read_text()) if each is not None]
    for each in found if selectors else ():
        spec = each.get("spec", {})
        if each["kind"] == "StatefulSet":
            spec["selector"] = {"matchLabels": labels}
            spec["template"]["metadata"]["labels"] = labels
        elif each["kind"] == "PodDisruptionBudget":
            spec["selector"] = {"matchLabels": labels}
        elif each["kind"] == "Service":
            spec["selector"] = labels
    return found


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = (each for each in resources() if each["kind"] == kind)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("selectors", [False, True], ids=["as written", "as applied"])
def test_kubernetes_takes_them(selectors: bool) -> None:
    validator: Any = pytest.importorskip("kubernetes_validate")
    found = resources(selectors=selectors)
    assert {each["kind"] for each in found} >= {"StatefulSet", "PodDisruptionBudget", "Service"}
    for each in found:
        validator.validate(each, "1.34", strict=True)
    with pytest.raises(validator.ValidationError):
        validator.validate({**found[0], "unheard-of": 1}, "1.34", strict=True)


def test_what_operators_count_on() -> None:
    pod = of_kind("StatefulSet")["spec"]["template"]["spec"]
    (broker,) = pod["containers"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= broker.keys()
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in (*pod["initContainers"], broker):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        mounted = {each["name"] for each in container["volumeMounts"]}
        assert mounted <= {each["name"] for each in pod["volumes"]} | {"data"}
    assert "token" not in {each["name"] for each in broker["volumeMounts"]}
    assert of_kind("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_everything_that_is_named_is_there() -> None:
    for overlay in (BASE, FOLDER / "overlays/cluster"):
        listed = yaml.safe_load((overlay / "kustomization.yaml").read_text())
        files = [*listed["resources"], *(each["path"] for each in listed.get("patches", ()))]
        files += [name for each in listed["configMapGenerator"] for name in each["files"]]
        assert [name for name in files if not (overlay / name).exists()] == []
        patched = overlay / "replicas.yaml"
        if patched.exists():
            assert yaml.safe_load(patched.read_text())["metadata"]["name"] == "moldau"


@pytest.mark.parametrize("path", ["base", "overlays/cluster"])
def test_the_settings_exist(path: str) -> None:
    given = parse_properties((FOLDER / path / "server.properties").read_text())
    assert given.keys() <= BROKER_SETTINGS.keys()


def test_the_start_of_a_pod(tmp_path: Path) -> None:
    """The script, with a program called moldau that writes down what it was asked for."""
    moldau = tmp_path / "moldau"
    moldau.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    moldau.chmod(0o755)
    zone = tmp_path / "zone"

    def asked() -> list[str]:
        environment = {
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "POD_NAME": "moldau-2",
            "POD_NAMESPACE": "shop",
            "ZONE_FILE": str(zone),
        }
        done = subprocess.run(["sh", str(BASE / "start.sh")], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    expected = [
        *("broker", "--config", "/etc/moldau/server.properties", "--set", "node.id=3"),
        *("--set", "advertised.listeners=PLAINTEXT://moldau-2.moldau-brokers.shop.svc:9092"),
    ]
    zone.write_text("")
    assert asked() == expected, "a node without a zone gives no rack"
    zone.write_text("eu-1a")
    assert asked() == [*expected, "--set", "broker.rack=eu-1a"]


@pytest.fixture
def api_server() -> Iterator[str]:
    """The one question that pods ask of Kubernetes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == "/api/v1/nodes/n1" and self.headers["Authorization"] == "Bearer secret"
            self.send_response(200 if known else 403)
            self.end_headers()
            labels = {"topology.kubernetes.io/zone": "eu-1b"}
            self.wfile.write(json.dumps({"metadata": {"labels": labels}}).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.parametrize(("node", "code"), [("n1", 0), ("n2", 1)])
def test_the_zone_of_a_node_becomes_the_rack(node: str, code: int, api_server: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    environment = {
        **os.environ,
        "ACCOUNT": str(tmp_path),
        "API_SERVER": api_server,
        "NODE_NAME": node,
        "ZONE_FILE": str(tmp_path / "zone"),
    }
    command = [sys.executable, str(BASE / "zone.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    if code == 0:
        assert (tmp_path / "zone").read_text() == "eu-1b"
