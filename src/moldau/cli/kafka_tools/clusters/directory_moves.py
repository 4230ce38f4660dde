"""The part of ``kafka-reassign-partitions`` that moves replicas between the log directories of their brokers.

Invariant: every replica of the plan that names a directory has a line of its own in what is printed, in the
order of its name.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from moldau.base.names import TopicPartition
from moldau.cli.kafka_tools.clusters.reassignment_plan import Directories, failed
from moldau.cli.kafka_tools.framework.exceptions import execution_lines
from moldau.client.admin.admin import Admin
from moldau.client.admin.replicas import Replica, move_log_dirs
from moldau.protocol.errors import ErrorCode, KafkaError

_ASK_AGAIN_SECONDS = 0.1


class Place(NamedTuple):
    """Where a replica is, and where it is going."""

    current: str | None
    future: str | None


async def find_places(admin: Admin, wanted: Mapping[Replica, str]) -> dict[Replica, Place]:
    """Where the replicas are now; nothing of those that no live directory has."""
    found: dict[Replica, Place] = {}
    brokers = sorted({broker for _, broker in wanted})
    live = [broker for broker in brokers if broker in admin.cluster.brokers]
    partitions = {partition for partition, _ in wanted}
    for broker, directories in (await admin.describe_log_dirs(live, partitions)).items():
        for directory in () if isinstance(directories, KafkaError) else directories:
            for place, replica in directory.replicas.items():
                key = TopicPartition(*place), broker
                known = found.get(key, Place(None, None))
                if replica.is_future:
                    found[key] = known._replace(future=directory.path)
                else:
                    found[key] = known._replace(current=directory.path)
    return found


async def start_moves(admin: Admin, wanted: Directories, seconds: float, say: Callable[[str], None]) -> None:
    """Begins the moves; replicas that are only just being made are asked for again until the time is up."""
    open_moves = dict(wanted)
    deadline = asyncio.get_running_loop().time() + seconds
    while open_moves:
        outcomes = await move_log_dirs(admin.cluster, open_moves)
        for replica, error in sorted(outcomes.items()):
            if error is None:
                partition, broker = replica
                path = open_moves.pop(replica)
                say(
                    f"Successfully started moving log directory to {path} for replica {partition} with "
                    f"broker {broker} "
                )
            elif error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                refused = failed(f"Failed to alter dir for {_name(replica)}")
                first, second = execution_lines(error)
                refused.causes = [f"Caused by: {first}", second]
                raise refused
        if open_moves and asyncio.get_running_loop().time() >= deadline:
            listed = ", ".join(_name(each) for each in sorted(open_moves))
            raise failed(
                f"Timed out before log directory move{'s' if len(open_moves) > 1 else ''} could be started "
                f"for: {listed}"
            )
        if open_moves:
            await asyncio.sleep(_ASK_AGAIN_SECONDS)


def status_lines(wanted: Directories, places: Mapping[Replica, Place]) -> list[str]:
    """What --verify tells of each replica."""
    lines = []
    for replica, target in sorted(wanted.items()):
        partition, broker = replica
        place = places.get(replica)
        if place is None or place.current is None:
            lines.append(
                f"Partition {partition} cannot be found in any live log directory on broker {broker}."
            )
        elif place.future == target:
            lines.append(f"Reassignment of replica {_name(replica)} is still in progress.")
        elif place.future is not None:
            lines.append(
                f"Partition {partition} on broker {broker} is being moved to log dir {place.future} instead "
                f"of {target}."
            )
        elif place.current == target:
            lines.append(f"Reassignment of replica {_name(replica)} completed successfully.")
        else:
            lines.append(
                f"Partition {partition} on broker {broker} is not being moved from log dir {place.current} "
                f"to {target}."
            )
    return lines


def under_way(wanted: Directories, places: Mapping[Replica, Place]) -> Directories:
    """The moves that go on, each with the directory in which the replica still is."""
    return {
        replica: place.current
        for replica in wanted
        if (place := places.get(replica)) is not None
        and place.future is not None
        and place.current is not None
    }


def _name(replica: Replica) -> str:
    partition, broker = replica
    return f"{partition}-{broker}"
