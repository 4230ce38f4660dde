"""Begins an application anew: its topics go, its group goes back, and its next run has no state.

Invariant: what would be done is known before anything is done; nothing is done while the application runs.
"""

from dataclasses import dataclass, field

from moldau.base.names import TopicPartition
from moldau.client.admin.admin import Admin, raise_errors
from moldau.client.admin.descriptions import EARLIEST, ListedOffset
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.cluster import Cluster
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.streams.errors import StreamsError
from moldau.streams.internal_topics import is_internal


@dataclass(slots=True)
class ResetPlan:
    """What a reset does."""

    application_id: str
    #: From where to where the group goes; None where it had committed nothing.
    offsets: dict[TopicPartition, tuple[int | None, int]] = field(default_factory=dict)
    deleted_topics: list[str] = field(default_factory=list)


async def planned(cluster: Cluster, application_id: str, input_topics: list[str]) -> ResetPlan:
    """What would be done. Without names, every topic of the group that others write goes back."""
    plan = ResetPlan(application_id)
    await _check_ended(cluster, application_id)
    everything = await cluster.topics(None)
    plan.deleted_topics = sorted(t.name for t in everything if is_internal(application_id, t.name))
    try:
        committed = await Groups(cluster).committed(application_id)
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        committed = {}
    counts = {t.name: len(t.partitions) for t in everything}
    for name in input_topics:
        if name not in counts:
            raise StreamsError(f"there is no topic {name}: 'moldau topics list' shows what there is")
    wanted = [TopicPartition(t, p) for t in input_topics for p in range(counts[t])]
    if not input_topics:
        wanted = [tp for tp in committed if tp.topic not in plan.deleted_topics and tp.topic in counts]
    firsts = await Admin(cluster).list_offsets(dict.fromkeys(wanted, EARLIEST)) if wanted else {}
    raise_errors(firsts)
    for place, first in sorted(firsts.items()):
        found = committed.get(place)
        assert isinstance(first, ListedOffset)
        plan.offsets[place] = (found.offset if isinstance(found, CommittedOffset) else None, first.offset)
    return plan


async def _check_ended(cluster: Cluster, application_id: str) -> None:
    described = (await Groups(cluster).describe([application_id]))[application_id]
    if not isinstance(described, KafkaError) and described.state not in ("Empty", "Dead"):
        raise StreamsError(
            f"application {application_id} runs (its group is {described.state}): stop it first with"
            f" 'moldau streams stop {application_id}'"
        )


async def remove(cluster: Cluster, application_id: str) -> list[str]:
    """Deletes all that an application which ended for good has in the cluster: the topics, and the group."""
    await _check_ended(cluster, application_id)
    topics = [t.name for t in await cluster.topics(None) if is_internal(application_id, t.name)]
    if topics:
        raise_errors(await Admin(cluster).delete_topics(topics))
    gone = (await Groups(cluster).delete([application_id]))[application_id]
    if gone is not None and gone.code != ErrorCode.GROUP_ID_NOT_FOUND:
        raise gone
    return sorted(topics)


async def carry_out(cluster: Cluster, plan: ResetPlan) -> None:
    if plan.offsets:
        commits = {place: CommittedOffset(to) for place, (_, to) in plan.offsets.items()}
        raise_errors(await Groups(cluster).commit(plan.application_id, commits))
    if plan.deleted_topics:
        raise_errors(await Admin(cluster).delete_topics(plan.deleted_topics))
