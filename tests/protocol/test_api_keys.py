"""The numbers of the APIs: Kafka's own, and ours far away from them."""

from moldau.protocol.api_keys import FIRST_PRIVATE_KEY, ApiKey


def test_numbers_of_kafka() -> None:
    assert (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.API_VERSIONS) == (0, 1, 18)
    assert (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.DESCRIBE_TOPIC_PARTITIONS) == (68, 75)


def test_ours_are_far_away() -> None:
    ours = {key for key in ApiKey if key >= FIRST_PRIVATE_KEY}
    assert {key.name for key in ours} == {
        "FORK_TOPIC",
        "BEGIN_RESTORE",
        "RESTORE_BATCHES",
        "END_RESTORE",
        "MIRROR_BATCHES",
        "CUT_MIRROR",
        "RAISE_LEADER_EPOCHS",
        "BRANCH_PARTITIONS",
    }
    assert max(key for key in ApiKey if key not in ours) < 200
    assert max(ours) <= 32767, "the header has two bytes for it"


def test_no_number_stands_twice() -> None:
    assert len({int(key) for key in ApiKey}) == len(ApiKey.__members__)
