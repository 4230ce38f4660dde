"""The controller's command for a topic that has its data already: a fork, or what a snapshot brings back.

Invariant: as in ``topics``: command + image -> records, pure. Everything that holds for a new topic holds
here.
"""

from collections.abc import Sequence

from moldau.base.names import Uuid
from moldau.cluster.controller.commands import Decision
from moldau.cluster.controller.topics import ConfigValidator, CreatedTopic, NewTopic, create_topic
from moldau.cluster.image import ClusterImage
from moldau.cluster.records import PartitionChanged


def create_branch(
    image: ClusterImage,
    topic: NewTopic,
    *,
    topic_id: Uuid,
    leader_epochs: Sequence[int],
    validate_configs: ConfigValidator,
) -> Decision[CreatedTopic]:
    """A topic whose partitions begin with these leader epochs: not below those of the records they hold.

    The replicas are assigned, for the data lies somewhere already.
    """
    assert topic.assignments
    created = create_topic(image, topic, topic_id=topic_id, seed=0, validate_configs=validate_configs)
    records = tuple(
        record._replace(leader_epoch=leader_epochs[record.partition])
        if isinstance(record, PartitionChanged)
        else record
        for record in created.records
    )
    return Decision(records, created.outcome)
