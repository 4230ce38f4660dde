"""What operators are given: every query names a metric that exists, the dashboard is the table's, rules
are tested.
"""

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from moldau.metrics import broker_metrics, connect_metrics, lag_metrics, mirror_metrics, service_metrics
from moldau.metrics.table import TABLE
from moldau.web.request_metrics import WEB_METRICS

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
#: What is no metric of ours: functions, words of the language, labels, and what Prometheus adds.
_NAME = re.compile(r"\b(?:kafka|moldau|java)_\w+")


def known_names() -> set[str]:
    assert broker_metrics.STATE in list(TABLE)
    assert connect_metrics.CONNECTORS in list(TABLE)
    assert lag_metrics.GROUP_LAG in list(TABLE)
    assert mirror_metrics.FLOW_LAG in list(TABLE)
    assert service_metrics.REGISTERED in list(TABLE)
    return {name for metric in (*TABLE, *WEB_METRICS) for name in metric.prometheus_names}


def unknown(queries: str) -> set[str]:
    return set(_NAME.findall(queries)) - known_names()


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate_dashboard", DEPLOY / "grafana/generate_dashboard.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_query_of_the_dashboard_names_a_metric() -> None:
    dashboard = json.loads((DEPLOY / "grafana/moldau.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(queries) > 25
    assert all(_NAME.search(query) for query in queries)
    assert unknown("\n".join(queries)) == set()


def test_the_dashboard_is_what_the_table_gives() -> None:
    written = (DEPLOY / "grafana/moldau.json").read_text()
    assert written == generator().text(), "run: python deploy/grafana/generate_dashboard.py"


@pytest.mark.parametrize("name", ["recording-rules.yml", "alert-rules.yml"])
def test_every_rule_names_a_metric(name: str) -> None:
    text = (PROMETHEUS / name).read_text()
    queries = "\n".join(re.findall(r"expr: (.*)", text))
    assert queries
    assert unknown(queries) == set()


def test_rules_that_are_used_are_recorded() -> None:
    recorded = set(re.findall(r"record: (\S+)", (PROMETHEUS / "recording-rules.yml").read_text()))
    used = set(re.findall(r"\bmoldau:\w+:\w+", (PROMETHEUS / "alert-rules.yml").read_text()))
    assert used <= recorded


def test_every_alert_has_a_runbook() -> None:
    alerts = re.findall(r"alert: (\w+)", (PROMETHEUS / "alert-rules.yml").read_text())
    runbooks = (DEPLOY.parent / "docs/operations/runbooks.md").read_text("utf-8")
    assert [name for name in alerts if not re.search(rf"^## .*`{name}`", runbooks, re.MULTILINE)] == []


@pytest.mark.slow
def test_alerts_fire_and_clear() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt install prometheus)")
    for words in (("test", "rules", "alert-tests.yml"), ("check", "config", "prometheus.yml")):
        ended = subprocess.run(
            [promtool, *words], cwd=PROMETHEUS, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
