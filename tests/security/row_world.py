"""The names of one play of a row, and what has to be there before a request: topics, groups, transactions.

Invariant: everything is made over the wire, by a connection that may do everything.
"""

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from moldau.protocol import messages
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.records import Record, encode_batch
from tests.security.secure_wire import Wire

#: What stands for a name in a row: the first five in the order of the names of a play.
PLACES = ("<T>", "<M>", "<G>", "<X>", "<C>", "<any>", "<user>")


class Unreadable(Exception):
    """A row whose request this file cannot make."""


@dataclass
class World:
    """The names of one play, and a connection that may do everything."""

    admin: Wire
    topic: str
    missing: str
    group: str
    transactional_id: str
    changelog: str
    user: str
    broker_epoch: int = -1
    unknown_id: bytes = b"\x11" * 15 + b"\x07"
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    producer: tuple[int, int] = (-1, -1)

    def names(self) -> dict[str, str]:
        own = (self.topic, self.missing, self.group, self.transactional_id, self.changelog)
        return dict(zip(PLACES, (*own, self.topic, self.user), strict=True))

    def create_topic(self, name: str | None = None) -> None:
        """The topic of the play, or another one."""
        name = self.topic if name is None else name
        request = make("CreateTopics")
        request.topics = [item("create_topics", "CreatableTopic", name=name, num_partitions=1)]
        request.topics[0].replication_factor = 1
        (made,) = self.admin.ask(request, 7).topics
        assert not made.error_code, made
        self.topic_ids[name] = made.topic_id

    def begin_transaction(self, *, with_partition: bool = False) -> None:
        request = make("InitProducerId", transactional_id=self.transactional_id, transaction_timeout_ms=60000)
        for _ in range(50):
            answer = self.admin.ask(request, 5)
            if not answer.error_code:
                break
        assert not answer.error_code, answer
        self.producer = (answer.producer_id, answer.producer_epoch)
        if with_partition:
            adding = make("AddPartitionsToTxn")
            adding.v3_and_below_transactional_id = self.transactional_id
            adding.v3_and_below_producer_id, adding.v3_and_below_producer_epoch = self.producer
            adding.v3_and_below_topics = [
                item("add_partitions_to_txn", "AddPartitionsToTxnTopic", name=self.topic, partitions=[0])
            ]
            self.admin.ask(adding, 3)

    def commit_offset(self, topic: str | None = None) -> None:
        answer = self.admin.ask(offset_commit("", 9, self, topic or self.topic, None), 9)
        assert not answer.topics[0].partitions[0].error_code, answer


def make(api: str, /, **values: Any) -> Any:
    """The request of an API by its name in the protocol, with these fields set."""
    request, _ = messages.load(api_key(api))
    return _filled(request(), values)


def item(module: str, name: str, /, **values: Any) -> Any:
    """A structure inside a message."""
    return _filled(getattr(import_module(f"moldau.protocol.messages.{module}"), name)(), values)


def _filled(message: Any, values: dict[str, Any]) -> Any:
    for name, value in values.items():
        setattr(message, name, value)
    return message


def api_key(api: str) -> ApiKey:
    wanted = api.lower()
    for key in ApiKey:
        if key.name.replace("_", "").lower() == wanted:
            return key
    raise Unreadable(f"there is no API {api}")


def batch(*, producer: tuple[int, int] | None = None, transactional: bool = False) -> bytes:
    options: dict[str, Any] = {}
    if producer is not None:
        options = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": 0}
    return bytes(encode_batch([Record(0, 1, b"k", b"v", ())], transactional=transactional, **options))


def offset_commit(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    data = item("offset_commit", "OffsetCommitRequestPartition", partition_index=0, committed_offset=0)
    data.committed_metadata = ""
    named = item("offset_commit", "OffsetCommitRequestTopic", name=topic, partitions=[data])
    if version >= 10:
        named.topic_id = topic_id or world.unknown_id
    request = make("OffsetCommit", group_id=world.group, topics=[named])
    request.generation_id_or_member_epoch = -1
    return request
