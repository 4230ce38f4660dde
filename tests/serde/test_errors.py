"""Paths of fields, as people write them."""

from moldau.serde.errors import path_text


def test_paths():
    assert path_text(["lines", 2, "price"]) == "lines[2].price"
    assert path_text([0, "a b", "c"]) == "[0]['a b'].c"
