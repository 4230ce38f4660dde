"""An asyncio client for Kafka's protocol: producer, consumer, consumer groups and administration.

    from moldau.client import Cluster, Producer

    async with await Cluster.open("127.0.0.1:9092") as cluster, await Producer.open(cluster) as producer:
        metadata = await (await producer.send("orders", b"value", key=b"key"))

Names are loaded when they are first used: importing one submodule does not load the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.base.names import TopicPartition as TopicPartition
    from moldau.client.admin.admin import Admin as Admin
    from moldau.client.admin.descriptions import READ_COMMITTED as READ_COMMITTED
    from moldau.client.admin.descriptions import READ_UNCOMMITTED as READ_UNCOMMITTED
    from moldau.client.admin.descriptions import NewTopic as NewTopic
    from moldau.client.consumer.consumer import BEGINNING as BEGINNING
    from moldau.client.consumer.consumer import END as END
    from moldau.client.consumer.consumer import Consumer as Consumer
    from moldau.client.consumer.consumer import at_offset as at_offset
    from moldau.client.consumer.consumer import at_timestamp as at_timestamp
    from moldau.client.groups.descriptions import CommittedOffset as CommittedOffset
    from moldau.client.groups.descriptions import ConsumerGroupMetadata as ConsumerGroupMetadata
    from moldau.client.groups.group_consumer import GroupConsumer as GroupConsumer
    from moldau.client.groups.groups import Groups as Groups
    from moldau.client.producer.producer import Producer as Producer
    from moldau.client.producer.producer import ProducerFenced as ProducerFenced
    from moldau.client.transport.cluster import Cluster as Cluster
    from moldau.client.transport.security import Security as Security
    from moldau.protocol.compression import Compression as Compression
    from moldau.protocol.errors import ErrorCode as ErrorCode
    from moldau.protocol.errors import KafkaError as KafkaError

_EXPORTS = {
    "BEGINNING": "client.consumer.consumer",
    "END": "client.consumer.consumer",
    "READ_COMMITTED": "client.admin.descriptions",
    "READ_UNCOMMITTED": "client.admin.descriptions",
    "Admin": "client.admin.admin",
    "Cluster": "client.transport.cluster",
    "CommittedOffset": "client.groups.descriptions",
    "Compression": "protocol.compression",
    "Consumer": "client.consumer.consumer",
    "ConsumerGroupMetadata": "client.groups.descriptions",
    "ErrorCode": "protocol.errors",
    "GroupConsumer": "client.groups.group_consumer",
    "Groups": "client.groups.groups",
    "KafkaError": "protocol.errors",
    "NewTopic": "client.admin.descriptions",
    "Producer": "client.producer.producer",
    "ProducerFenced": "client.producer.producer",
    "Security": "client.transport.security",
    "TopicPartition": "base.names",
    "at_offset": "client.consumer.consumer",
    "at_timestamp": "client.consumer.consumer",
}
__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"moldau.{_EXPORTS[name]}"), name)
    globals()[name] = found
    return found
