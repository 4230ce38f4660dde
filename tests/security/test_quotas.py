"""Quotas as values: precedence, and waiting times by a real broker's numbers."""

import pytest

from moldau.security.quotas import (
    PRODUCE,
    QuotaEntity,
    Rate,
    TokenBucket,
    entity_of,
    parts_of,
    quota_of,
    shown_entity,
)

#: From the most to the least specific.
_LEVELS = [
    QuotaEntity("u", "c"),
    QuotaEntity("u", ""),
    QuotaEntity("u"),
    QuotaEntity("", "c"),
    QuotaEntity("", ""),
    QuotaEntity(""),
    QuotaEntity(None, "c"),
    QuotaEntity(None, ""),
]


@pytest.mark.parametrize("first", range(8))
def test_the_most_specific_quota_counts(first: int) -> None:
    quotas = {
        entity: {PRODUCE: 1000.0 + 100 * level} for level, entity in enumerate(_LEVELS) if level >= first
    }
    found = quota_of(quotas, PRODUCE, "u", "c")
    assert found is not None
    assert found.limit == 1000.0 + 100 * first
    assert quota_of(quotas, "consumer_byte_rate", "u", "c") is None


def test_a_client_without_an_id_has_no_quota_of_clients() -> None:
    quotas = {QuotaEntity(None, ""): {PRODUCE: 1.0}}
    assert quota_of(quotas, PRODUCE, "u", "x") is not None
    assert quota_of(quotas, PRODUCE, "u", "") is None
    assert quota_of(quotas, PRODUCE, "u", None) is None


def test_who_shares_a_rate() -> None:
    def sharing(entity: QuotaEntity, user: str, client: str) -> object:
        found = quota_of({entity: {PRODUCE: 1.0}}, PRODUCE, user, client)
        return found and found.shared_by

    assert sharing(QuotaEntity("u"), "u", "a") == sharing(QuotaEntity("u"), "u", "b")
    assert sharing(QuotaEntity("u", ""), "u", "a") != sharing(QuotaEntity("u", ""), "u", "b")
    assert sharing(QuotaEntity(None, "a"), "u", "a") == sharing(QuotaEntity(None, "a"), "v", "a")
    assert sharing(QuotaEntity(""), "u", "a") != sharing(QuotaEntity(""), "v", "a")


@pytest.mark.parametrize(
    ("windows", "size", "amount", "wait"),
    [
        (11, 1, 95_000, 0),
        (11, 1, 105_000, 0.5),
        (11, 1, 115_000, 1.5),
        (11, 1, 150_000, 5),
        (11, 1, 400_000, 30),
        (3, 2, 39_000, 0),
        (3, 2, 45_000, 0.5),
        (3, 2, 120_000, 8),
    ],
)
def test_a_first_request_waits_as_long_as_at_a_real_broker(
    windows: int, size: int, amount: int, wait: float
) -> None:
    rate = Rate(windows, size)
    rate.record(100.0, amount)
    assert rate.throttle_seconds(100.0, 10_000) == pytest.approx(wait)


def test_a_rate_is_forgotten_with_its_windows() -> None:
    rate = Rate(11, 1)
    rate.record(0.0, 200_000)
    assert rate.throttle_seconds(0.0, 10_000) == 10
    assert rate.throttle_seconds(10.0, 10_000) > 0
    assert rate.throttle_seconds(11.0, 10_000) == 0
    assert rate.left(11.0, 10_000) == pytest.approx(100_000)


def test_over_time_a_client_that_waits_gets_its_quota() -> None:
    rate, now, sent = Rate(11, 1), 0.0, 0
    while now < 300:
        rate.record(now, 50_000)
        sent += 50_000
        now += rate.throttle_seconds(now, 10_000) + 0.001
    assert sent / now == pytest.approx(10_000, rel=0.1)


def test_a_bucket_is_overdrawn_once() -> None:
    bucket = TokenBucket(11)
    assert bucket.has_left(0.0, 1)
    bucket.use(0.0, 1, 30)
    assert not bucket.has_left(0.0, 1)
    assert bucket.throttle_seconds(0.0, 1) == 19
    assert bucket.has_left(19.0, 1)


@pytest.mark.parametrize("parts", [{"user": "a"}, {"user": None, "client-id": "c"}, {"ip": None}])
def test_entities_by_the_names_of_the_protocol(parts: dict[str, str | None]) -> None:
    assert parts_of(entity_of(parts)) == parts


def test_an_entity_as_kafka_shows_it() -> None:
    assert shown_entity(QuotaEntity("a", "")) == "{client-id=<default>, user=a}"
