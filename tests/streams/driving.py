"""Runs an application without Spark: batches are planned, carried out and decided in this process.

Invariant: what decides results is what Spark's driver and tasks use: the reader, the worker, the decisions.
"""

import json
import os
import uuid
from pathlib import Path
from typing import Any

from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.spark.background_loop import connect
from moldau.spark.write.exactly_once import Decisions, transactional_id
from moldau.streams.runner.application import StreamsOptions, prepared
from moldau.streams.runner.orders import Order
from moldau.streams.runner.programs import Program
from moldau.streams.runner.source import StreamsReader, WorkerPartition
from moldau.streams.runner.worker import Worker


class Driving:
    """One life of an application; ``state`` is what Spark's checkpoint would have.

    With a ``checkpoint`` a batch is planned there before it is begun, as Spark does it: after a crash the
    same batch is done again.
    """

    def __init__(
        self, program: Program, application_id: str, options: StreamsOptions, checkpoint: Path | None = None
    ) -> None:
        self.application = prepared(program, application_id, options, 1)
        self._reader = StreamsReader(self.application)
        self._worker = Worker()
        self._loop = connect(self.application.cluster)
        self.state: dict[str, Any] = self._reader.initialOffset()
        self.batch_id = 0
        self._query_id = str(uuid.uuid4())
        self._checkpoint = checkpoint
        self._planned: dict[str, Any] | None = None
        if checkpoint is not None and checkpoint.exists():
            self._query_id, self.batch_id, self.state, self._planned = json.loads(checkpoint.read_text())
        self._loop.run(self._finish())

    async def _finish(self) -> None:
        decisions = await Decisions.open(self._loop.cluster, self.application.query)
        await decisions.finish_last()
        await decisions.clean_up()

    def _save(self) -> None:
        if self._checkpoint is None:
            return
        new = self._checkpoint.with_suffix(".new")
        with open(new, "w") as file:
            json.dump([self._query_id, self.batch_id, self.state, self._planned], file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self._checkpoint)

    def run(self, most_batches: int = 1_000, *, tell_group: bool = True) -> int:
        """Batches until there is nothing new; how many."""
        for count in range(most_batches):
            end = self._planned or self._reader.latestOffset(self.state, self._reader.getDefaultReadLimit())
            if json.dumps(end) == json.dumps(self.state):
                return count
            self._planned = end
            self._save()
            self._batch(end, tell_group=tell_group)
        return most_batches

    def _batch(self, end: dict[str, Any], *, tell_group: bool) -> None:
        answers = []
        for each in self._reader.partitions(self.state, end):
            assert isinstance(each, WorkerPartition)
            slot = transactional_id(self.application.query, each.number, 0)
            answers.append(self._worker.run(Order(self.application, slot, each.tasks)))
        positions = {place: at for done in answers for place, at in done.positions.items()}
        parts = [done.part for done in answers if done.part is not None]

        async def decide() -> None:
            cluster = self._loop.cluster
            decisions = await Decisions.open(cluster, self.application.query)
            if parts:
                await decisions.decide(self.batch_id, parts, self._query_id, positions)
            if tell_group:
                commits = {place: CommittedOffset(at) for place, at in positions.items()}
                await Groups(cluster).commit(self.application.application_id, commits)

        self._loop.run(decide())
        self.state, self.batch_id, self._planned = end, self.batch_id + 1, None
        self._save()
