"""Who leads after a broker has gone or come back, as a Kafka 4.3 cluster was seen to decide."""

from itertools import permutations

import pytest

from moldau.cluster.controller.elections import (
    Election,
    ElectionRules,
    after_loss,
    after_return,
    elections_after_configs,
    rules_of_configs,
    settle,
)
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage, PartitionImage, partition_changed
from moldau.cluster.records import (
    NO_LEADER,
    BrokerFenced,
    BrokerRegistered,
    ConfigChanged,
    ResourceType,
    TopicCreated,
)

TWO = ElectionRules(min_insync_replicas=2)
UNCLEAN = ElectionRules(unclean=True)


def partition(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    leader_epoch: int = 4,
    partition_epoch: int = 9,
    elr: tuple[int, ...] = (),
    last_known_elr: tuple[int, ...] = (),
) -> PartitionImage:
    return PartitionImage(
        0, replicas, isr, leader, leader_epoch, partition_epoch, elr=elr, last_known_elr=last_known_elr
    )


def test_loss_of_a_leader() -> None:
    lost = after_loss(partition((3, 1, 2), (3, 1, 2), 3), {3}, {1, 2})
    assert lost == partition((3, 1, 2), (1, 2), 1, 5, 10)


def test_the_first_live_member_of_the_isr_leads_in_the_order_of_the_replicas() -> None:
    assert after_loss(partition((3, 1, 2), (2, 1, 3), 3), {3}, {1, 2}).leader == 1
    assert after_loss(partition((3, 1, 2), (2, 1, 3), 3), {3}, {2}).leader == 2


def test_loss_of_a_follower_keeps_the_leader_epoch() -> None:
    lost = after_loss(partition((2, 3, 1), (2, 3, 1), 2), {3}, {1, 2})
    assert lost == partition((2, 3, 1), (2, 1), 2, 4, 10)


def test_loss_of_a_broker_outside_the_isr_changes_nothing() -> None:
    before = partition((1, 2), (1,), 1)
    assert after_loss(before, {2}, {1}) is before
    assert after_return(before, 2, {1}) is before
    assert after_return(before, 7, {1}) is before


def test_who_left_below_the_minimum_is_eligible() -> None:
    lost = after_loss(partition((2, 3), (2, 3), 2), {3}, {2}, TWO)
    assert lost == partition((2, 3), (2,), 2, 4, 10, elr=(3,))
    assert after_loss(partition((2, 3), (2, 3), 2), {3}, {2}) == partition((2, 3), (2,), 2, 4, 10)


def test_the_minimum_is_at_most_the_number_of_replicas() -> None:
    lost = after_loss(partition((2, 3), (2, 3), 2), {3}, {2}, ElectionRules(min_insync_replicas=5))
    assert lost.elr == (3,)
    assert after_loss(partition((2,), (2,), 2), {3}, {2}, ElectionRules(5)).elr == ()


def test_the_last_one_leaves_nobody_in_sync_but_stays_eligible() -> None:
    lost = after_loss(partition((2, 3), (2,), 2), {2}, set())
    assert lost == partition((2, 3), (), NO_LEADER, 5, 10, elr=(2,), last_known_elr=(2,))
    assert after_loss(lost, {2}, set()) is lost
    both = after_loss(partition((2, 3), (2,), 2, elr=(3,)), {2}, set(), TWO)
    assert both == partition((2, 3), (), NO_LEADER, 5, 10, elr=(2, 3), last_known_elr=(2,))


def test_those_who_are_lost_together_are_all_eligible() -> None:
    lost = after_loss(partition((1, 2, 3), (1, 2, 3), 1), {1, 2, 3}, set())
    assert lost == partition((1, 2, 3), (), NO_LEADER, 5, 10, elr=(1, 2, 3), last_known_elr=(1,))


def test_a_clean_return_of_an_eligible_replica() -> None:
    """Of two replicas with a minimum of two, the one that stopped cleanly leads at once."""
    lost = partition((2, 3), (), NO_LEADER, 5, 10, elr=(2, 3), last_known_elr=(2,))
    led = after_return(lost, 3, set(), TWO, clean=True)
    assert led == partition((2, 3), (3,), 3, 6, 11, elr=(2,))


def test_a_process_that_died_is_not_eligible_any_more() -> None:
    lost = partition((2, 3), (), NO_LEADER, 5, 10, elr=(2, 3), last_known_elr=(2,))
    left = after_return(lost, 3, set(), TWO)
    assert left == partition((2, 3), (), NO_LEADER, 5, 11, elr=(2,), last_known_elr=(2, 3))
    # Then the leader of before comes back: nobody has more than it has.
    assert after_return(left, 2, {3}, TWO) == partition((2, 3), (2,), 2, 6, 12)


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_after_the_death_of_all_the_last_leader_leads_unless_its_disk_was_exchanged(
    order: tuple[int, ...],
) -> None:
    """With an empty log it would take the records from everybody else."""
    dead = after_loss(partition((1, 2, 3), (1, 2, 3), 1), {1, 2, 3}, set())
    first_other = next(each for each in order if each != 1)
    for empty, leader in ((False, 1), (True, first_other)):
        found, back = dead, set[int]()
        for broker_id in order:
            assert found.leader == NO_LEADER
            found = after_return(found, broker_id, back, TWO, empty=empty and broker_id == 1)
            back.add(broker_id)
        assert (found.leader, found.isr) == (leader, (leader,))


def test_a_disk_that_was_exchanged_before_anybody_missed_its_broker() -> None:
    alone = partition((1, 2), (1,), 1)
    lost = after_return(alone, 1, {2}, empty=True)
    assert lost == partition((1, 2), (), NO_LEADER, 5, 10)
    asked = settle(lost, lost, {1, 2}, election=Election.UNCLEAN)
    assert asked.leader == 1, "nobody knows of anything better"
    late = partition((1, 2), (), NO_LEADER, 5, 10, last_known_elr=(1, 2))
    assert after_return(late, 1, {2}, empty=True).leader == 2
    alone = partition((1,), (1,), 1)
    assert after_return(alone, 1, set(), empty=True).leader == 1, "nobody else can have anything"


def test_an_unclean_election_prefers_who_was_eligible_last() -> None:
    offline = partition((1, 2, 3), (), NO_LEADER, last_known_elr=(3, 2))
    assert settle(offline, offline, {1, 2}, election=Election.UNCLEAN).leader == 2
    assert settle(offline, offline, {1}, election=Election.UNCLEAN).leader == 1


def test_who_is_not_eligible_does_not_lead() -> None:
    lost = partition((2, 3), (), NO_LEADER, 5, 10, elr=(2,), last_known_elr=(2,))
    assert after_return(lost, 3, set()) is lost
    assert after_return(lost, 3, set(), clean=True) is lost


def test_unclean_where_the_topic_allows_it() -> None:
    lost = partition((2, 3), (), NO_LEADER, 5, 10, elr=(2,), last_known_elr=(2,))
    assert after_return(lost, 3, set(), UNCLEAN) == partition((2, 3), (3,), 3, 6, 11)
    assert after_loss(partition((2, 3), (2,), 2), {2}, {3}, UNCLEAN) == partition((2, 3), (3,), 3, 5, 10)


def test_the_last_member_leads_again_when_it_is_back() -> None:
    lost = partition((3, 1), (), NO_LEADER, 5, 10, elr=(3,), last_known_elr=(3,))
    assert after_return(lost, 3, {1}) == partition((3, 1), (3,), 3, 6, 11)
    assert after_return(lost, 3, {1}, clean=True) == partition((3, 1), (3,), 3, 6, 11)


def test_a_log_from_before_eligible_replicas() -> None:
    """Older releases kept the last member in the ISR, and so does an imported directory."""
    assert after_return(partition((1,), (1,), NO_LEADER), 1, set()) == partition((1,), (1,), 1, 5, 10)


def test_a_leader_that_nobody_missed_leads_on_with_a_new_epoch() -> None:
    """Its unflushed records may be lost, and others must not take new ones for them."""
    assert after_return(partition((1,), (1,), 1), 1, set()) == partition((1,), (1,), 1, 5, 10)
    assert after_return(partition((1,), (1,), 1), 1, set(), clean=True) == partition((1,), (1,), 1, 5, 10)


def test_a_leader_that_nobody_missed_gives_way_to_a_live_member() -> None:
    assert after_return(partition((1, 2), (1, 2), 1), 1, {2}) == partition((1, 2), (2,), 2, 5, 10)


def test_a_follower_that_nobody_missed_must_catch_up_first() -> None:
    assert after_return(partition((1, 2), (1, 2), 1), 2, {1}) == partition((1, 2), (1,), 1, 4, 10)


def test_the_preferred_leader_leads_where_it_is_in_sync() -> None:
    before = partition((1, 2), (2, 1), 2)
    assert settle(before, before, {1, 2}, election=Election.PREFERRED) == partition((1, 2), (2, 1), 1, 5, 10)
    assert settle(before, before, {2}, election=Election.PREFERRED) is before
    behind = partition((1, 2), (2,), 2)
    assert settle(behind, behind, {1, 2}, election=Election.PREFERRED) is behind


def test_rules_come_from_the_topic_then_all_brokers_then_the_file() -> None:
    rules = rules_of_configs({"min.insync.replicas": "2", "unclean.leader.election.enable": "true"})
    image = EMPTY_IMAGE.apply(TopicCreated(bytes(16), "t"))
    assert rules(image, "t") == ElectionRules(2, True)
    image = image.apply(ConfigChanged(ResourceType.BROKER, "", "min.insync.replicas", "3"))
    assert rules(image, "t") == ElectionRules(3, True)
    image = image.apply(ConfigChanged(ResourceType.TOPIC, "t", "min.insync.replicas", "4"))
    image = image.apply(ConfigChanged(ResourceType.TOPIC, "t", "unclean.leader.election.enable", "false"))
    assert rules(image, "t") == ElectionRules(4, False)
    assert rules_of_configs({})(EMPTY_IMAGE, "t") == ElectionRules(1, False)


MIN_ISR, UNCLEAN_ELECTION = "min.insync.replicas", "unclean.leader.election.enable"
RULES = rules_of_configs({})


def cluster(described: PartitionImage, *fenced: int, minimum: str = "2") -> ClusterImage:
    topic_id = bytes(16)
    return EMPTY_IMAGE.apply_all(
        [
            *(BrokerRegistered(each, each, bytes(16), ()) for each in (1, 2, 3)),
            *map(BrokerFenced, fenced),
            TopicCreated(topic_id, "t"),
            partition_changed(topic_id, described),
            ConfigChanged(ResourceType.BROKER, "", MIN_ISR, minimum),
        ]
    )


def after_config(image: ClusterImage, changed: ConfigChanged) -> PartitionImage:
    elected = elections_after_configs(image, [changed], RULES)
    return image.apply_all([changed, *elected]).topics_by_name["t"].partitions[0]


def test_with_a_lower_minimum_who_left_is_not_eligible_any_more() -> None:
    """The leader commits alone from then on: whoever left does not have what is acknowledged now."""
    image = cluster(partition((1, 2, 3), (1,), 1, elr=(2, 3)), 2, 3)
    for changed in (
        ConfigChanged(ResourceType.TOPIC, "t", MIN_ISR, "1"),
        ConfigChanged(ResourceType.BROKER, "", MIN_ISR, "1"),
    ):
        assert after_config(image, changed) == partition((1, 2, 3), (1,), 1, 4, 10)
    other = ConfigChanged(ResourceType.TOPIC, "t", "retention.ms", "1")
    assert elections_after_configs(image, [other], RULES) == []


def test_with_another_minimum_they_stay_eligible_where_nothing_was_committed_without_them() -> None:
    alone = partition((1, 2, 3), (1,), 1, elr=(2, 3))
    higher = ConfigChanged(ResourceType.TOPIC, "t", MIN_ISR, "3")
    assert after_config(cluster(alone, 2, 3), higher) == alone
    offline = partition((1, 2, 3), (), NO_LEADER, elr=(2, 3), last_known_elr=(1,))
    lower = ConfigChanged(ResourceType.TOPIC, "t", MIN_ISR, "1")
    assert after_config(cluster(offline, 1, 2, 3), lower) == offline


def test_an_unclean_election_is_held_when_it_is_allowed() -> None:
    offline = partition((1, 2, 3), (), NO_LEADER, elr=(1,), last_known_elr=(1,))
    allowed = ConfigChanged(ResourceType.TOPIC, "t", UNCLEAN_ELECTION, "true")
    assert after_config(cluster(offline, 1), allowed) == partition((1, 2, 3), (2,), 2, 5, 10)
    led = partition((1, 2, 3), (1, 2, 3), 1)
    assert after_config(cluster(led), allowed) == led
