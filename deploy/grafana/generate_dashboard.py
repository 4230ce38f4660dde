"""Writes the Grafana dashboard of a Moldau cluster from the table of metrics.

    python deploy/grafana/generate_dashboard.py            writes moldau.json beside this file

Every query is made from a metric of the table: a name that does not exist cannot be asked for.
"""

import json
from pathlib import Path
from typing import Any

from moldau.metrics import broker_metrics as m
from moldau.metrics import connect_metrics as connect
from moldau.metrics import lag_metrics as lag
from moldau.metrics.table import Metric

TARGET = Path(__file__).parent / "moldau.json"
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3


def total(metric: Metric, by: str = "instance") -> str:
    return f"sum by ({by}) ({metric.prometheus})"


def rate(metric: Metric, by: str = "instance", where: str = "") -> str:
    return f"sum by ({by}) (rate({metric.prometheus}{where}[$__rate_interval]))"


def p99(metric: Metric, request: str) -> str:
    return f'{metric.prometheus}{{request="{request}",quantile="0.99"}}'


def times(request: str) -> list[str]:
    return [p99(m.TIMES[part], request) for part in ("total", "local", "remote")]


def elections() -> str:
    return f"sum(rate({m.ELECTIONS.prometheus}_count_total[$__rate_interval]))"


def free() -> str:
    return f"{m.DIRECTORY_USABLE.prometheus} / {m.DIRECTORY_TOTAL.prometheus}"


ALL = '{topic=""}'
EACH = '{topic!=""}'
#: Rows of the dashboard: title, and panels of title, unit and queries.
ROWS: dict[str, list[tuple[str, str, list[str]]]] = {
    "Is it well": [
        ("Under-replicated partitions (0)", "short", [total(m.REPLICAS["UnderReplicatedPartitions"])]),
        ("Offline partitions (0)", "short", [f"sum({m.CONTROLLER['OfflinePartitionsCount'].prometheus})"]),
        ("Active controllers (1)", "short", [f"sum({m.CONTROLLER['ActiveControllerCount'].prometheus})"]),
        ("Below min.insync.replicas (0)", "short", [total(m.REPLICAS["UnderMinIsrPartitionCount"])]),
        ("Brokers there and fenced", "short", [
            f"sum({m.CONTROLLER['ActiveBrokerCount'].prometheus})",
            f"sum({m.CONTROLLER['FencedBrokerCount'].prometheus})",
        ]),
        ("Elections, unclean ones", "short", [rate(m.UNCLEAN), elections()]),
    ],
    "Traffic": [
        ("Records in", "cps", [rate(m.TRAFFIC["messages_in"][0], where=ALL)]),
        ("Bytes in", "Bps", [rate(m.TRAFFIC["bytes_in"][0], where=ALL)]),
        ("Bytes out", "Bps", [rate(m.TRAFFIC["bytes_out"][0], where=ALL)]),
        ("Busiest topics, bytes in", "Bps", [f"topk(10, {rate(m.TRAFFIC['bytes_in'][1], 'topic', EACH)})"]),
        ("Busiest topics, bytes out", "Bps", [f"topk(10, {rate(m.TRAFFIC['bytes_out'][1], 'topic', EACH)})"]),
        ("Replication in and out", "Bps", [rate(metric) for metric in m.REPLICATION.values()]),
    ],
    "Requests": [
        ("Requests by API", "reqps", [rate(m.REQUESTS, "request")]),
        ("Errors", "reqps", [rate(m.ERRORS, "request, error", '{error!="NONE"}')]),
        ("Produce, 99th percentile", "ms", times("Produce")),
        ("Fetch, 99th percentile", "ms", times("FetchConsumer")),
        ("Waiting requests", "short", [total(m.PURGATORY["PurgatorySize"], "delayedOperation")]),
        ("Idle share of the thread", "percentunit", [total(m.NETWORK_IDLE)]),
    ],
    "Consumers": [
        ("Lag by group", "short", [total(lag.GROUP_LAG, "group")]),
        ("Groups: 0 well, 1 slow, 2 stuck", "short", [total(lag.GROUP_STATUS, "group")]),
        ("Groups by state", "short", [f"sum({metric.prometheus})" for metric in m.GROUP_STATES.values()]),
    ],
    "Connect": [
        ("Tasks that have failed (0)", "short", [total(connect.TASK_STATES["FAILED"], "connector")]),
        ("Records from sources and to sinks", "cps", [
            rate(connect.RECORDS[name], "connector")
            for name in ("source-record-write-total", "sink-record-send-total")
        ]),
        ("Errors and dead letters", "cps", [
            rate(connect.RECORDS[name], "connector")
            for name in ("total-record-errors", "deadletterqueue-produce-requests")
        ]),
    ],
    "The machine": [
        ("Memory", "bytes", [total(m.RESIDENT)]),
        ("Free part of the disk", "percentunit", [free()]),
        ("Size of logs by topic", "bytes", [f"topk(10, {total(m.LOG['Size'], 'topic')})"]),
        ("Open files", "short", [total(m.OPEN_FILES)]),
        ("How late the thread is, 99th percentile", "ms", [f'{m.LOOP_LAG.prometheus}{{quantile="0.99"}}']),
        ("Flush, 99th percentile", "ms", [f'{m.LOG_FLUSH.prometheus}{{quantile="0.99"}}']),
    ],
}  # fmt: skip


def dashboard() -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    top = 0
    for row, members in ROWS.items():
        panels.append(_panel(len(panels), row, "row", {"h": 1, "w": 24, "x": 0, "y": top}))
        top += 1
        for index, (title, unit, queries) in enumerate(members):
            place = {
                "h": _HEIGHT,
                "w": _WIDTH,
                "x": index % _COLUMNS * _WIDTH,
                "y": top + index // _COLUMNS * _HEIGHT,
            }
            panel = _panel(len(panels), title, "timeseries", place)
            panel["datasource"] = {"type": "prometheus", "uid": "${source}"}
            panel["fieldConfig"] = {"defaults": {"unit": unit, "min": 0}, "overrides": []}
            panel["targets"] = [
                {"refId": chr(ord("A") + number), "expr": query, "datasource": panel["datasource"]}
                for number, query in enumerate(queries)
            ]
            panels.append(panel)
        top += -(-len(members) // _COLUMNS) * _HEIGHT
    source = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    return {
        "title": "Moldau",
        "uid": "moldau",
        "tags": ["moldau", "kafka"],
        "schemaVersion": 39,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source]},
        "panels": panels,
    }


def _panel(number: int, title: str, kind: str, place: dict[str, int]) -> dict[str, Any]:
    return {"id": number + 1, "title": title, "type": kind, "gridPos": place}


def text() -> str:
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text())
