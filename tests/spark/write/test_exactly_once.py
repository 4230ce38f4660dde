"""A decision as it is kept."""

import json

import pytest

from moldau.spark.write.exactly_once import BatchDecision


def test_a_decision_says_how_far_its_batch_has_read() -> None:
    decision = BatchDecision(7, (), "query", (("in", 0, 42), ("in", 1, 3)))
    assert BatchDecision.from_json(decision.to_json()) == decision


def test_a_decision_without_positions_is_as_before() -> None:
    kept = json.loads(BatchDecision(7, (), "query").to_json())
    assert kept == {"version": 1, "query": "query", "batch": 7, "parts": []}
    assert BatchDecision.from_json(json.dumps(kept).encode()).positions == ()


def test_a_decision_of_a_later_version_is_refused() -> None:
    with pytest.raises(ValueError, match="a later Moldau"):
        BatchDecision.from_json(b'{"version": 2}')


def test_a_query_that_begins_anew_counts_from_0() -> None:
    last = BatchDecision(7, (), "query")
    assert (last.covers("query", 7), last.covers("query", 8), last.covers("other", 0)) == (True, False, False)
