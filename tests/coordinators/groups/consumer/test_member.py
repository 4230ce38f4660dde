"""How a member gets from what it has to what it shall have, step by result."""

from collections.abc import Iterable
from typing import Any

import pytest

from moldau.coordinators.groups.consumer.assignors import Partitions
from moldau.coordinators.groups.consumer.member import (
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    MemberState,
    Target,
    reconcile,
)
from moldau.protocol.errors import ErrorCode, KafkaError

ONE, THREE = b"one".rjust(16), b"three".rjust(16)


def of_three(*indexes: int) -> Partitions:
    return frozenset((THREE, index) for index in indexes)


def target(
    epoch: int,
    partitions: Partitions,
    owned: Partitions | None = None,
    *,
    subscribed: Iterable[bytes] = (ONE, THREE),
    changed: bool = False,
    taken: Partitions = frozenset(),
) -> Target:
    return Target(
        epoch, partitions, frozenset(subscribed), changed, owned, lambda partition: partition not in taken
    )


def stable(epoch: int, *partitions: Any) -> ConsumerMember:
    return reconcile(ConsumerMember("m"), target(epoch, frozenset(partitions), frozenset()))


#: It has all of a topic of three partitions, in epoch 2.
ALL = stable(2, *of_three(0, 1, 2))
#: It has to revoke the last one.
LETTING_GO = reconcile(ALL, target(3, of_three(0, 1), of_three(0, 1, 2)))


def test_a_member_lets_go_before_it_moves_on() -> None:
    assert (ALL.member_epoch, ALL.state, ALL.assigned.keys()) == (2, MemberState.STABLE, of_three(0, 1, 2))
    assert (LETTING_GO.member_epoch, LETTING_GO.state) == (2, MemberState.UNREVOKED_PARTITIONS)
    assert LETTING_GO.pending_revocation.keys() == of_three(2)
    for owned in (None, of_three(0, 1, 2)):
        assert reconcile(LETTING_GO, target(3, of_three(0, 1), owned)) is LETTING_GO
    done = reconcile(LETTING_GO, target(3, of_three(0, 1), of_three(0, 1)))
    assert (done.member_epoch, done.state, done.assigned.keys()) == (3, MemberState.STABLE, of_three(0, 1))
    assert not done.pending_revocation


def test_a_member_that_has_more_to_let_go_of_stays_in_its_epoch() -> None:
    more = reconcile(LETTING_GO, target(5, of_three(0), of_three(0, 1)))
    assert (more.member_epoch, more.state) == (2, MemberState.UNREVOKED_PARTITIONS)
    assert more.pending_revocation.keys() == of_three(1)
    done = reconcile(more, target(5, of_three(0), of_three(0)))
    assert (done.member_epoch, done.previous_member_epoch) == (5, 2)


def test_topics_that_are_given_up_meanwhile_are_waited_for_besides() -> None:
    """Nothing that it had to let go of is forgotten, whatever else it has to let go of now."""
    wanted = frozenset({(ONE, 0)})
    asked = target(4, wanted, of_three(0, 1, 2), subscribed=[ONE], changed=True)
    member = reconcile(LETTING_GO, asked)
    assert member.pending_revocation.keys() == of_three(0, 1, 2)
    assert not member.assigned
    assert reconcile(member, target(4, wanted, of_three(2), subscribed=[ONE])) is member
    done = reconcile(member, target(4, wanted, frozenset(), subscribed=[ONE]))
    assert (done.member_epoch, done.assigned.keys()) == (4, wanted)


def test_giving_up_a_topic_does_not_end_the_time_for_a_lost_answer() -> None:
    member = reconcile(
        LETTING_GO, target(3, of_three(0, 1), of_three(0, 1))
    )  # epoch 3, and it may not have heard of that
    gave_up = reconcile(member, target(3, frozenset(), of_three(0, 1), subscribed=[ONE], changed=True))
    assert (gave_up.member_epoch, gave_up.previous_member_epoch) == (3, 2)
    gave_up.check_epoch(2, frozenset())


def test_what_others_have_is_waited_for() -> None:
    waiting = reconcile(ConsumerMember("m"), target(3, of_three(0, 1), frozenset(), taken=of_three(1)))
    assert (waiting.member_epoch, waiting.state) == (3, MemberState.UNRELEASED_PARTITIONS)
    assert waiting.assigned.keys() == of_three(0)
    assert reconcile(waiting, target(3, of_three(0, 1), taken=of_three(1))).assigned == waiting.assigned
    done = reconcile(waiting, target(3, of_three(0, 1)))
    assert (done.state, done.assigned.keys()) == (MemberState.STABLE, of_three(0, 1))


def test_a_static_member_that_is_away_keeps_what_it_has_and_frees_what_it_was_to_let_go_of() -> None:
    away = LETTING_GO.temporarily_left()
    assert (away.member_epoch, away.state) == (STATIC_LEAVE_EPOCH, MemberState.STABLE)
    assert (away.assigned.keys(), dict(away.pending_revocation)) == (of_three(0, 1), {})


@pytest.mark.parametrize(
    ("received", "owned", "taken"),
    [
        (3, None, True),
        (2, of_three(0), True),
        (2, of_three(0, 1, 2), False),
        (2, None, False),
        (1, frozenset(), False),
        (4, frozenset(), False),
    ],
)
def test_an_old_epoch_is_taken_where_an_answer_may_have_been_lost(
    received: int, owned: Partitions | None, taken: bool
) -> None:
    member = reconcile(LETTING_GO, target(3, of_three(0, 1), of_three(0, 1)))
    if taken:
        member.check_epoch(received, owned)
        return
    with pytest.raises(KafkaError) as refused:
        member.check_epoch(received, owned)
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH
