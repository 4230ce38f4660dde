"""How a source learns which query it is read by: Spark tells that to tasks, and not to the driver's source.

So the driver asks. The first task of a run finds name and id of its query in what Spark says of its job, and
leaves them for the driver in the cluster, as the words beside an offset that it commits for a group which is
the source's own. The driver reads them after the batch and keeps what it has learned in the checkpoint, as a
part of the offset in which the next batch ends; then it removes that group.

Invariant: a query goes on without its name: what cannot be told or learned is said in the log, and stops
nothing.
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
    """A streaming query; the name is empty for one that nobody has named."""

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
    """In a task: tells the driver what it does not know."""
    if not query.query_id or query == question.known:
        return
    told = CommittedOffset(offset, metadata=f"{query.query_id} {query.name}")
    try:
        outcome = loop.run(Groups(loop.cluster).commit(question.group_id, {partition: told}))[partition]
        if outcome is not None:
            raise outcome
    except KafkaError as error:
        log.warning("the driver does not learn that this is query %r: %s", query.name, error)


class QueryName:
    """On the driver: what is known of the query, and what is to be asked."""

    def __init__(self, loop: BackgroundLoop) -> None:
        self._loop = loop
        self._token = uuid4().hex[:16]
        self._asked = False
        self._heard = False
        #: Whether an answer lies in the cluster that the checkpoint does not hold yet.
        self._left_there = False
        self.known = Query()

    @property
    def text(self) -> str:
        """What the checkpoint keeps."""
        return f"{self._token} {self.known.query_id} {self.known.name}".rstrip()

    def resume(self, text: str) -> None:
        """Goes on with what the checkpoint holds; the first time counts."""
        if self._left_there and text == self.text:
            self._remove()
        if not text or text.startswith(self._token) or self._asked:
            return
        token, _, rest = text.partition(" ")
        self._token = token
        query_id, _, name = rest.partition(" ")
        self.known = Query(query_id, name)
        if not query_id:
            self._hear()  # the run before this one ended before its answer was heard

    def question(self) -> Question | None:
        """For the first task of a batch, in the first batch of a run."""
        if self._heard:
            return None
        self._asked = True
        return Question(self._group_id, self.known)

    def learn(self) -> bool:
        """After the batch in which was asked; whether the name is another one now."""
        before = self.known.name
        if self._asked and not self._heard:
            self._heard = True
            self._hear()
        return self.known.name != before

    @property
    def _group_id(self) -> str:
        return f"moldau-source-{self._token}"

    def _hear(self) -> None:
        try:
            found = self._loop.run(Groups(self._loop.cluster).committed(self._group_id))
            for committed in found.values():
                if isinstance(committed, CommittedOffset) and committed.metadata:
                    query_id, _, name = committed.metadata.partition(" ")
                    self.known = Query(query_id, name)
                    self._left_there = True
        except KafkaError as error:
            log.warning("the name of the query could not be learned: %s", error)

    def _remove(self) -> None:
        self._left_there = False
        try:
            self._loop.run(Groups(self._loop.cluster).delete([self._group_id]))
        except KafkaError as error:
            log.warning("group %s stays: %s", self._group_id, error)
