"""Ids that no tool takes for an option."""

from moldau.base import new_ids
from moldau.base.names import format_uuid


def test_ids_differ_and_do_not_begin_with_a_dash(monkeypatch) -> None:
    assert len({new_ids.new_uuid() for _ in range(100)}) == 100
    drawn = iter([bytes(16), b"\xf8" + bytes(15), b"\x01" * 16])
    monkeypatch.setattr(new_ids.os, "urandom", lambda size: next(drawn))
    found = new_ids.new_uuid()
    assert found == b"\x01" * 16
    assert not format_uuid(found).startswith("-")
