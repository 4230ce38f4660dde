"""Compaction while a broker runs: it is looked for by itself, and only where it is wanted."""

from collections.abc import Mapping

from moldau.testing import Broker
from tests.shared.waiting import turns, until

BACKOFF_SECONDS = 15
SETTINGS = {"log.cleaner.backoff.ms": BACKOFF_SECONDS * 1000}
COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": 200, "min.cleanable.dirty.ratio": 0.01}
RECORDS = 12


def filled(broker: Broker, configs: Mapping[str, str | int | float]) -> None:
    """Twelve records with two keys, in segments of one or two."""
    broker.create_topic("state", configs=configs)
    for number in range(RECORDS):
        broker.produce("state", bytes(50), key=b"%d" % (number % 2))


def offsets(broker: Broker) -> list[int]:
    return [record.offset for record in broker.records("state")]


def wait_for_compaction(broker: Broker) -> None:
    async def wait() -> None:
        await until(lambda: len(offsets(broker)) <= 6, "nothing was compacted")

    broker.run(wait())


def settle(broker: Broker) -> None:
    broker.run(turns(100))


def test_it_begins_by_itself_after_a_while() -> None:
    with Broker(SETTINGS) as broker:
        filled(broker, COMPACTED)
        settle(broker)
        assert offsets(broker) == list(range(RECORDS))
        broker.clock.advance(BACKOFF_SECONDS + 1)
        wait_for_compaction(broker)
        kept = offsets(broker)
        assert kept[-1] == RECORDS - 1, "the newest record of a key stays"
        assert {record.key for record in broker.records("state")} == {b"0", b"1"}


def test_what_is_not_compacted_by_its_policy_stays() -> None:
    with Broker(SETTINGS) as broker:
        filled(broker, {**COMPACTED, "cleanup.policy": "delete"})
        broker.clock.advance(BACKOFF_SECONDS + 1)
        settle(broker)
        assert offsets(broker) == list(range(RECORDS))


def test_it_can_be_switched_off() -> None:
    with Broker({**SETTINGS, "log.cleaner.enable": False}) as broker:
        filled(broker, COMPACTED)
        broker.clock.advance(10 * BACKOFF_SECONDS)
        settle(broker)
        assert offsets(broker) == list(range(RECORDS))
