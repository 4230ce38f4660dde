"""Headers that say which schema it is, as serializers set and read them."""

import pytest

from moldau.schemas.schema_id import header_of
from moldau.serde.calls import put_header
from moldau.serde.errors import SerdeError


def test_headers():
    listed, mapped = [("x", b"1"), ("id", b"old")], {"x": b"1"}
    put_header(listed, "id", b"new")
    put_header(mapped, "id", b"new")
    assert listed == [("x", b"1"), ("id", b"new")]
    assert header_of(listed, "id") == header_of(mapped, "id") == b"new"
    assert header_of(None, "id") is None
    assert header_of([("x", b"")], "id") is None
    with pytest.raises(SerdeError, match=r"pass headers=\[\]"):
        put_header(None, "id", b"new")
