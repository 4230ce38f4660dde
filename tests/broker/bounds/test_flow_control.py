"""What connections share: buffers that shrink when many hold bytes back, and answers that nobody takes."""

from moldau.broker.bounds.flow_control import RECEIVE_BUFFER_BYTES, Intake, UnsentAnswers
from moldau.broker.bounds.turns import Rotation


def test_the_more_hold_bytes_back_the_less_is_read() -> None:
    intake = Intake(Rotation([].append))
    assert len(intake.scratch) == RECEIVE_BUFFER_BYTES
    intake.hold_back(64)
    assert len(intake.scratch) == RECEIVE_BUFFER_BYTES
    intake.hold_back(1)
    assert len(intake.scratch) == 16 * 1024
    intake.hold_back(-1)
    assert len(intake.scratch) == RECEIVE_BUFFER_BYTES


class Peer:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def give_up(self, reason: str) -> None:
        self.reasons.append(reason)


def test_what_is_taken_is_forgotten() -> None:
    unsent, slow, fast = UnsentAnswers(1000), Peer(), Peer()
    unsent.add(slow, 300)
    unsent.add(fast, 400)
    unsent.add(fast, 100)
    assert (len(unsent), unsent.crowded) == (800, True)
    unsent.forget(fast)
    unsent.forget(fast)
    assert (len(unsent), unsent.crowded) == (300, False)


def test_beyond_the_limit_the_one_that_waits_for_the_longest_time_goes() -> None:
    unsent = UnsentAnswers(1000)
    peers = [Peer() for _ in range(4)]
    for peer in peers:
        unsent.add(peer, 300)
    assert [len(peer.reasons) for peer in peers] == [1, 0, 0, 0]
    assert "has not taken 300 bytes" in peers[0].reasons[0]
    assert "moldau.unsent.bytes.max=1000" in peers[0].reasons[0]
    unsent.forget(peers[1])
    unsent.add(peers[1], 500)
    assert [len(peer.reasons) for peer in peers] == [1, 0, 1, 0], "it had taken what was waiting"


def test_one_that_is_too_much_by_itself() -> None:
    unsent, peer = UnsentAnswers(1000), Peer()
    unsent.add(peer, 5000)
    assert (len(unsent), len(peer.reasons)) == (0, 1)
