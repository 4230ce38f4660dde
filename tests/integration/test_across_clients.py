"""What one client writes the others read, byte for byte: every pair, every codec that both have."""

import random
from collections.abc import Iterator

import pytest

from moldau.testing import Broker
from tests.integration.client_contract import Client, Producing, Sent
from tests.integration.every_client import CLIENTS
from tests.integration.scenario_table import CODECS

pytestmark = pytest.mark.slow


@pytest.fixture
def clients(moldau_broker: Broker) -> Iterator[dict[str, Client]]:
    opened = {name: client(moldau_broker.bootstrap_servers) for name, client in CLIENTS.items()}
    yield opened
    for client in opened.values():
        client.close()


def a_bit_of_everything(seed: int) -> list[Sent]:
    dice = random.Random(seed)
    records = [
        Sent(
            dice.choice([b"", dice.randbytes(dice.randrange(2000)), b"same " * dice.randrange(500)]),
            dice.choice([None, b"", dice.randbytes(8)]),
            [(dice.choice("abc"), dice.randbytes(dice.randrange(20))) for _ in range(dice.randrange(4))],
            1_600_000_000_000 + dice.randrange(1_000_000),
        )
        for _ in range(60)
    ]
    return [*records, Sent(None, b"a tombstone", timestamp_ms=1_600_000_000_000)]


@pytest.mark.parametrize("writer", CLIENTS)
def test_the_others_read_what_one_writes(
    writer: str, clients: dict[str, Client], moldau_broker: Broker, topic: str
) -> None:
    usable = ["none", *(codec for codec in CODECS if codec in CLIENTS[writer].codecs)]
    sent = {codec: a_bit_of_everything(seed) for seed, codec in enumerate(usable)}
    for codec, records in sent.items():
        producer = clients[writer].producer(Producing(compression=codec, linger_ms=10))
        for record in records:
            producer.send(f"{topic}.{codec}", record, partition=0)
        assert producer.flush() == list(range(len(records)))
    for codec, records in sent.items():
        wanted = [(each.value, each.key, tuple(each.headers), each.timestamp_ms) for each in records]
        kept = moldau_broker.records(f"{topic}.{codec}")
        assert [(each.value, each.key, each.headers, each.timestamp) for each in kept] == wanted
        for name, client in clients.items():
            if codec != "none" and codec not in CLIENTS[name].codecs:
                continue
            consumer = client.consumer()
            consumer.assign(f"{topic}.{codec}", {0: 0})
            found = consumer.poll(len(records))
            got = [(each.value, each.key, each.headers, each.timestamp_ms) for each in found]
            assert got == wanted, f"{name} read something else than {writer} wrote with {codec}"
