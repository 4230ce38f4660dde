"""How the driver's source learns the name of its query, which Spark shows only to tasks.

The first task of a run finds the name and id of its query in the properties of its Spark job. It leaves
them in the cluster, as metadata of an offset that it commits for a group of the source's own. The driver
reads them after the batch and keeps them in the checkpoint, as a part of the end offset of the next batch;
then it deletes that group.

Invariant: a query runs on without its name: a failure here is logged and stops nothing.
"""

import logging
from dataclasses import dataclass
from uuid import uuid4

from moldau.base.names import TopicPartition
from moldau.client.groups.descriptions import CommittedOffset
from moldau.client.groups.groups import Groups
from moldau.client.transport.background_loop import BackgroundLoop
from moldau.protocol.errors import KafkaError

log = logging.getLogger("moldau.spark")


@dataclass(frozen=True, slots=True)
class Query:
    """A streaming query; the name is empty for one without a name."""

    query_id: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """What travels with a task: where to leave the answer, and what the driver knows already."""

    group_id: str
    known: Query


def query_of_job(query_id: str | None, description: str | None) -> Query:
    """From two properties of a job; Spark describes it in lines: the name if there is one, id, run, batch."""
    if not query_id:
        return Query()
    name, found, _ = (description or "").partition(f"id = {query_id}")
    # Older Sparks have <br/> between the lines.
    return Query(query_id, name.strip().removesuffix("<br/>").strip() if found else "")


def answer(
    loop: BackgroundLoop, question: Question, query: Query, partition: TopicPartition, offset: int
) -> None:
    """In a task: leaves the query's name and id for the driver, unless the driver knows them."""
    if not query.query_id or query == question.known:
        return
    committed = CommittedOffset(offset, metadata=f"{query.query_id} {query.name}")
    try:
        outcome = loop.run(Groups(loop.cluster).commit(question.group_id, {partition: committed}))[partition]
        if outcome is not None:
            raise outcome
    except KafkaError as error:
        log.warning("the driver does not learn that this is query %r: %s", query.name, error)


class QueryName:
    """On the driver: what is known of the query, and what tasks are asked."""

    def __init__(self, loop: BackgroundLoop) -> None:
        self._loop = loop
        self._token = uuid4().hex[:16]
        self._asked = False
        self._answer_read = False
        #: Whether there is an answer in the cluster that is not in the checkpoint yet.
        self._answer_in_cluster = False
        self.known = Query()

    @property
    def text(self) -> str:
        """What the checkpoint keeps."""
        return f"{self._token} {self.known.query_id} {self.known.name}".rstrip()

    def resume(self, text: str) -> None:
        """Goes on with what the checkpoint has, the first time this is called."""
        if self._answer_in_cluster and text == self.text:
            self._remove()
        if not text or text.startswith(self._token) or self._asked:
            return
        token, _, rest = text.partition(" ")
        self._token = token
        query_id, _, name = rest.partition(" ")
        self.known = Query(query_id, name)
        if not query_id:
            self._read_answer()  # the last run ended before it had read its answer

    def question(self) -> Question | None:
        """For the first task of a batch, in the first batch of a run."""
        if self._answer_read:
            return None
        self._asked = True
        return Question(self._group_id, self.known)

    def learn(self) -> bool:
        """Reads the answer after the first batch; whether the name has changed."""
        before = self.known.name
        if self._asked and not self._answer_read:
            self._answer_read = True
            self._read_answer()
        return self.known.name != before

    @property
    def _group_id(self) -> str:
        return f"moldau-source-{self._token}"

    def _read_answer(self) -> None:
        try:
            found = self._loop.run(Groups(self._loop.cluster).committed(self._group_id))
            for committed in found.values():
                if isinstance(committed, CommittedOffset) and committed.metadata:
                    query_id, _, name = committed.metadata.partition(" ")
                    self.known = Query(query_id, name)
                    self._answer_in_cluster = True
        except KafkaError as error:
            log.warning("the name of the query could not be learned: %s", error)

    def _remove(self) -> None:
        self._answer_in_cluster = False
        try:
            self._loop.run(Groups(self._loop.cluster).delete([self._group_id]))
        except KafkaError as error:
            log.warning("group %s stays: %s", self._group_id, error)
