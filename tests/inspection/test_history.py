"""Leader epochs that cannot be right are distinguished from the others."""

import pytest

from moldau.inspection.history import consistent_epochs


@pytest.mark.parametrize(
    ("epochs", "odd"),
    [
        ([], []),
        ([(0, 0), (1, 5), (4, 9)], []),
        ([(0, 0), (77, 5), (0, 6), (1, 9)], [(77, 5)]),
        ([(3, 0), (1, 5), (3, 6)], [(1, 5)]),
        ([(99, 0), (0, 1), (1, 5)], [(99, 0)]),
        ([(0, 0), (5, 2), (9, 3), (1, 5)], [(9, 3), (5, 2)]),
    ],
)
def test_epochs_only_grow(epochs: list[tuple[int, int]], odd: list[tuple[int, int]]) -> None:
    consistent, found = consistent_epochs(epochs)
    assert found == odd
    assert [epoch for epoch, _ in consistent] == sorted({epoch for epoch, _ in consistent})
