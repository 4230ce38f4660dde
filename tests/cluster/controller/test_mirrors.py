"""Leader epochs of mirrors, as records of the metadata log."""

import pytest

from moldau.cluster.controller.mirrors import raise_leader_epochs
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.records import ConfigChanged, PartitionChanged, ResourceType, TopicCreated
from moldau.protocol.errors import ErrorCode, KafkaError

ID = bytes([1]) * 16


def image(state: str | None = "mirror") -> ClusterImage:
    records: list[object] = [TopicCreated(ID, "orders")]
    records += [PartitionChanged(ID, index, (1,), (1,), 1, 4, 9) for index in range(2)]
    if state is not None:
        records.append(ConfigChanged(ResourceType.TOPIC, "orders", "moldau.mirror.state", state))
    return EMPTY_IMAGE.apply_all(records)  # type: ignore[arg-type]


def test_only_higher_epochs_make_records() -> None:
    result = raise_leader_epochs(image(), {("orders", 0): 7, ("orders", 1): 4})
    (record,) = result.records
    assert isinstance(record, PartitionChanged)
    assert (record.partition, record.leader_epoch, record.partition_epoch, record.leader) == (0, 7, 10, 1)
    assert image().apply_all(result.records).topics_by_name["orders"].partitions[0].leader_epoch == 7


@pytest.mark.parametrize(
    ("state", "asked", "code"),
    [
        (None, ("orders", 0, 7), ErrorCode.POLICY_VIOLATION),
        ("mirror", ("orders", 5, 7), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("mirror", ("other", 0, 7), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("mirror", ("orders", 0, 2**31 - 1), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refusals(state: str | None, asked: tuple[str, int, int], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        raise_leader_epochs(image(state), {asked[:2]: asked[2]})
    assert caught.value.code is code
