"""The walk over two schemas: recursive pairs end, finished pairs are remembered, and work is bounded."""

import pytest

from moldau.registry.rules.differences import MAX_KEPT, Difference, TooComplex, Walk, breaks, under

BREAKING, HARMLESS = Difference("REMOVED", "/a"), Difference("ADDED", "/b", breaking=False)


def test_paths_grow_on_the_way_up() -> None:
    assert under("/x", [BREAKING, HARMLESS]) == [
        Difference("REMOVED", "/x/a"),
        Difference("ADDED", "/x/b", breaking=False),
    ]
    assert breaks([HARMLESS, BREAKING])
    assert not breaks([HARMLESS])


def test_a_pair_is_compared_once() -> None:
    walk, one, other, calls = Walk(), object(), object(), 0

    def rule() -> list[Difference]:
        nonlocal calls
        calls += 1
        return [BREAKING]

    assert walk.compare(one, other, rule) == walk.compare(one, other, rule) == (BREAKING,)
    assert calls == 1


def test_a_pair_inside_itself_counts_as_equal() -> None:
    walk, one, other = Walk(), object(), object()

    def rule() -> list[Difference]:
        return [*walk.compare(one, other, rule), HARMLESS]

    assert walk.compare(one, other, rule) == (HARMLESS,)


def test_what_leans_on_an_open_pair_is_not_remembered_as_compatible() -> None:
    walk, outer, inner = Walk(), (object(), object()), (object(), object())
    results: list[tuple[Difference, ...]] = []

    def inside() -> list[Difference]:
        return list(walk.compare(*outer, around))

    def around() -> list[Difference]:
        results.append(walk.compare(*inner, inside))
        return [BREAKING]

    walk.compare(*outer, around)
    assert results == [()]
    assert walk.compare(*inner, inside) == (BREAKING,), "now the outer pair is known"


def test_work_and_findings_are_bounded() -> None:
    walk = Walk(limit=3)
    pairs = [(object(), object()) for _ in range(4)]
    for pair in pairs[:3]:
        walk.compare(*pair, list)
    with pytest.raises(TooComplex):
        walk.compare(*pairs[3], list)
    many = [HARMLESS] * (2 * MAX_KEPT) + [BREAKING]
    kept = Walk().compare(object(), object(), lambda: many)
    assert len(kept) == MAX_KEPT
    assert breaks(kept), "what breaks is kept first"
