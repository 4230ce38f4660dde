"""``moldau doctor -b``: what can be wrong with a cluster, as a client sees it.

Invariant: changes nothing. What does not answer is a finding, not an error.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moldau.cli.reports.diagnosis import check_disk
from moldau.client.admin.admin import Admin
from moldau.client.admin.descriptions import LogDir
from moldau.client.transport.authentication import AuthenticationFailed
from moldau.client.transport.cluster import Cluster, Topic
from moldau.client.transport.connection import BrokerNotAvailable
from moldau.protocol.errors import KafkaError
from moldau.reports.findings import Finding, Severity, ok

_TIMEOUT_MS = 5_000


async def examine_cluster(bootstrap_server: str, options: Mapping[str, Any]) -> list[Finding]:
    """Whether it answers, whether each broker can be reached, whether each partition has its replicas.

    ``options`` are those of ``Cluster``.
    """
    timeouts = {"request_timeout_ms": _TIMEOUT_MS, "connect_timeout_ms": _TIMEOUT_MS}
    try:
        cluster = await Cluster.open(bootstrap_server, **(timeouts | dict(options)))
    except AuthenticationFailed as error:
        step = "give the security settings with --command-config FILE or -X NAME=VALUE"
        return [Finding(Severity.PROBLEM, bootstrap_server, str(error), step)]
    except BrokerNotAvailable as error:
        return [
            Finding(
                Severity.PROBLEM, bootstrap_server, str(error), "start the broker, or correct the address"
            )
        ]
    async with cluster:
        found = [ok("cluster", f"{cluster.cluster_id}, {len(cluster.brokers)} broker(s)")]
        for node_id, broker in sorted(cluster.brokers.items()):
            found.append(await _check_broker(cluster, node_id, broker.address))
        if cluster.controller_id not in cluster.brokers:
            step = "topics cannot be changed until there is one: look at the brokers' logs"
            found.append(Finding(Severity.PROBLEM, "controller", "there is none", step))
        found += check_topics(await cluster.topics(None))
        found += await _check_disks(cluster)
        return found


async def _check_broker(cluster: Cluster, node_id: int, address: str) -> Finding:
    try:
        connection = await cluster.connection(node_id)
    except KafkaError as error:
        step = "start the broker, or correct its advertised.listeners"
        return Finding(Severity.PROBLEM, f"broker {node_id}", f"{address}: {error}", step)
    return ok(f"broker {node_id}", f"{address} answers, {len(connection.api_versions)} APIs")


async def _check_disks(cluster: Cluster) -> list[Finding]:
    return [
        finding
        for node_id, outcome in (await Admin(cluster).describe_log_dirs()).items()
        if not isinstance(outcome, KafkaError)  # a broker that does not answer has been found already
        for finding in check_log_dirs(node_id, outcome)
    ]


def check_log_dirs(node_id: int, directories: list[LogDir]) -> list[Finding]:
    """Finds data directories that failed, and disks with little room; unknown sizes are left out."""
    found = []
    for each in directories:
        subject = f"disk of broker {node_id}"
        if each.error_code:
            step = "mend or replace the disk, and restart the broker; docs/operations/runbooks.md"
            found.append(Finding(Severity.PROBLEM, subject, f"{each.path} is offline", step))
        elif each.usable_bytes >= 0:
            finding = check_disk(Path(each.path), each.usable_bytes)
            found.append(Finding(finding.severity, subject, finding.text, finding.next_step))
    return found


def check_topics(topics: list[Topic]) -> list[Finding]:
    """Finds partitions without a leader, and those with replicas that are not in sync."""
    partitions = [(topic.name, p) for topic in topics for p in topic.partitions]
    offline = [f"{name}-{p.index}" for name, p in partitions if p.leader_id < 0]
    lagging = [
        f"{name}-{p.index}" for name, p in partitions if p.leader_id >= 0 and len(p.isr) < len(p.replicas)
    ]
    found = []
    if offline:
        step = "start the brokers that hold them: 'moldau topics describe TOPIC' names them"
        found.append(Finding(Severity.PROBLEM, "partitions", f"without a leader: {_some(offline)}", step))
    if lagging:
        step = "see whether a broker is down; they catch up by themselves when it is back"
        found.append(Finding(Severity.WARNING, "partitions", f"under-replicated: {_some(lagging)}", step))
    return found or [
        ok("partitions", f"{len(partitions)} in {len(topics)} topic(s), all with their replicas")
    ]


def _some(names: list[str]) -> str:
    more = len(names) - 5
    return ", ".join(names[:5]) + (f" and {more} more" if more > 0 else "")
