"""The application logs of a broker, and what goes to that of state changes: who leads, who is in sync.

Invariant: only listens; put in where application logs are written.
"""

import logging
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from moldau.base.application_logs import ApplicationLogs
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.cluster.image import ClusterImage, PartitionImage
from moldau.cluster.records import PartitionChanged, Record

log = logging.getLogger("moldau.state")


def write_logs(settings: BrokerSettings) -> Callable[[], Coroutine[Any, Any, None]]:
    """Writes the application logs of a broker from now on; what is returned ends that."""
    logs = ApplicationLogs(
        Path(settings["moldau.logs.dir"]),
        settings["moldau.logs.max.bytes"],
        settings["moldau.logs.backups"],
        as_json=settings["moldau.logs.json"],
    )

    async def close() -> None:
        logs.close()

    return close


def log_state_changes(old: ClusterImage, new: ClusterImage, records: Sequence[Record]) -> None:
    for record in records:
        if not isinstance(record, PartitionChanged):
            continue
        topic = new.topics_by_id.get(record.topic_id)
        if topic is None or record.partition >= len(topic.partitions):
            continue
        before = old.topics_by_id.get(record.topic_id)
        known = None if before is None else before.partitions[record.partition : record.partition + 1]
        change = _change(known[0] if known else None, topic.partitions[record.partition])
        if change:
            log.info("partition %s-%d: %s", topic.name, record.partition, change)


def _change(before: PartitionImage | None, now: PartitionImage) -> str:
    if before is None:
        return f"new, leader {now.leader}, replicas {list(now.replicas)}, in sync {list(now.isr)}"
    said = []
    if before.leader != now.leader:
        said.append(f"leader {before.leader} -> {now.leader}, epoch {now.leader_epoch}")
    if before.isr != now.isr:
        said.append(f"in sync {list(before.isr)} -> {list(now.isr)}")
    if before.replicas != now.replicas:
        said.append(f"replicas {list(before.replicas)} -> {list(now.replicas)}")
    return "; ".join(said)
