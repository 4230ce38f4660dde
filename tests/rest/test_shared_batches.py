"""Batches that requests share: what comes while one is on its way travels together, each with its outcome."""

import asyncio

import pytest

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.records import decode_records, read_header
from moldau.rest import shared_batches
from moldau.rest.shared_batches import SharedBatches
from tests.shared.waiting import turns, until

PLACE = ("orders", 0)


class Delivery:
    def __init__(self):
        self.calls = []

    def when_done(self, call):
        self.calls.append(call)

    def done(self, outcome):
        for call in self.calls:
            call(outcome)


class Producer:
    """Keeps what it gets, for the test to say what became of it."""

    def __init__(self):
        self.sent = []
        self.next = -1

    async def next_partition(self, topic):
        self.next += 1
        return self.next

    async def send_encoded(self, topic, encoded, *, at_once=False):
        data = encoded.stamped(-1, -1, -1, transactional=False)
        found = decode_records(data, 0, read_header(data), limit=1_000_000)
        records = [(each.key, each.value) for each in found]
        self.sent.append((encoded.partition, records, Delivery()))
        return self.sent[-1][2]

    def values(self):
        return [[value for _, value in records] for _, records, _ in self.sent]


def sharing(work):
    """Runs a test that says itself when what is collected leaves."""

    async def run():
        batches = SharedBatches(Producer())
        await work(batches, batches.producer)

    asyncio.run(run())


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(shared_batches, "_LINGER_SECONDS", 3600)


def test_what_comes_meanwhile_travels_together():
    async def work(batches, producer):
        first = await batches.add(PLACE, [b"a", b"b"], None, 10)
        assert producer.values() == [[b"a", b"b"]], "nobody waits where nothing is on its way"
        second = await batches.add(PLACE, [b"c"], None, 10)
        third = await batches.add(PLACE, [b"d", None], None, 10)
        elsewhere = await batches.add(("orders", 1), [b"e"], None, 10)
        assert producer.values() == [[b"a", b"b"], [b"e"]]
        producer.sent[0][2].done((100, -1))
        await turns(3)
        assert producer.values()[2:] == [[b"c", b"d", None]]
        producer.sent[2][2].done((102, -1))
        producer.sent[1][2].done((7, -1))
        shares = [(PLACE, first), (PLACE, second), (PLACE, third), (("orders", 1), elsewhere)]
        found = [await batches.outcome(place, share) for place, share in shares]
        assert found == [(0, 100), (0, 102), (0, 103), (1, 7)]
        again = await batches.add(PLACE, [b"f"], None, 10)
        assert producer.values()[-1] == [b"f"], "nothing is on its way any more"
        producer.sent[-1][2].done((-1, -1))
        assert await batches.outcome(PLACE, again) == (0, -1)

    sharing(work)


def test_what_names_no_partition_goes_to_the_next_one():
    async def work(batches, producer):
        place = ("orders", None)
        shares = [await batches.add(place, [value], None, 10) for value in (b"a", b"b", b"c")]
        producer.sent[0][2].done((5, -1))
        await turns(3)
        producer.sent[1][2].done((9, -1))
        assert [await batches.outcome(place, share) for share in shares] == [(0, 5), (1, 9), (1, 10)]

    sharing(work)


def test_what_does_not_fit_makes_what_is_collected_leave():
    async def work(batches, producer):
        await batches.add(PLACE, [b"a"], None, 10)
        await batches.add(PLACE, [b"b"], None, 100_000)
        await batches.add(PLACE, [b"c"], None, 100_000)
        await batches.add(PLACE, [b"d"], [b"k"], 10)
        await batches.add(PLACE, [b"e"], [b"l"], 10)
        await batches.add(PLACE, [b"f"] * 1000, [b"k"] * 1000, 10)
        await turns(3)
        assert producer.values() == [[b"a"], [b"b"], [b"c"], [b"d", b"e"]]
        assert producer.sent[3][1] == [(b"k", b"d"), (b"l", b"e")]

    sharing(work)


def test_what_is_collected_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(shared_batches, "_LINGER_SECONDS", 0)

    async def work(batches, producer):
        await batches.add(PLACE, [b"a"], None, 10)
        await batches.add(PLACE, [b"b"], None, 10)
        await until(lambda: len(producer.sent) >= 2)
        assert producer.values() == [[b"a"], [b"b"]]

    sharing(work)


@pytest.mark.parametrize("code", [ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE])
def test_nobody_fails_for_the_records_of_another_request(code):
    async def work(batches, producer):
        await batches.add(PLACE, [b"a"], None, 10)
        shares = [await batches.add(PLACE, [value], None, 10) for value in (b"good", b"bad")]
        producer.sent[0][2].done((0, -1))
        await turns(3)
        refused = KafkaError(code, "no")
        producer.sent[1][2].done(refused)
        asking = [asyncio.ensure_future(batches.outcome(PLACE, share)) for share in shares]
        await turns(3)
        assert producer.values()[2:] == [[b"good"], [b"bad"]]
        producer.sent[2][2].done((1, -1))
        producer.sent[3][2].done(refused)
        assert await asyncio.gather(*asking) == [(0, 1), (0, refused)]
        # Where it was for the size nothing is collected any more.
        await batches.add(PLACE, [b"x"], None, 10)
        await batches.add(PLACE, [b"y"], None, 10)
        apart = [[b"x"], [b"y"]] if code is ErrorCode.MESSAGE_TOO_LARGE else [[b"x"]]
        assert producer.values()[4:] == apart

    sharing(work)


def test_other_failures_are_those_of_all():
    async def work(batches, producer):
        await batches.add(PLACE, [b"a"], None, 10)
        shares = [await batches.add(PLACE, [value], None, 10) for value in (b"b", b"c")]
        producer.sent[0][2].done((0, -1))
        await turns(3)
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "it may be written")
        producer.sent[1][2].done(late)
        assert [await batches.outcome(PLACE, share) for share in shares] == [(0, late), (0, late)]
        assert len(producer.sent) == 2

    sharing(work)


def test_a_request_that_is_given_up_leaves_the_others():
    async def work(batches, producer):
        await batches.add(PLACE, [b"a"], None, 10)
        gone, stays = [await batches.add(PLACE, [value], None, 10) for value in (b"b", b"c")]
        asking = asyncio.ensure_future(batches.outcome(PLACE, gone))
        await turns(3)
        asking.cancel()
        producer.sent[0][2].done((0, -1))
        await turns(3)
        producer.sent[1][2].done((1, -1))
        assert await batches.outcome(PLACE, stays) == (0, 2)

    sharing(work)
