"""Which worker has a connector, and that few of them move."""

from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.worker.assignment import owner_of

WORKERS = [f"http://10.0.0.{number}:8083" for number in range(1, 6)]
NAMES = [f"connector-{number}" for number in range(300)]


def test_nobody_is_there() -> None:
    assert owner_of("x", []) is None


def test_a_worker_that_goes_moves_only_its_own() -> None:
    before = {name: owner_of(name, WORKERS) for name in NAMES}
    after = {name: owner_of(name, WORKERS[1:]) for name in NAMES}
    assert all(before[name] == after[name] for name in NAMES if before[name] != WORKERS[0])
    shares = [list(before.values()).count(worker) for worker in WORKERS]
    assert min(shares) > 30


@given(st.text(), st.permutations(WORKERS))
def test_the_order_does_not_matter(name: str, workers: list[str]) -> None:
    assert owner_of(name, workers) == owner_of(name, WORKERS)
