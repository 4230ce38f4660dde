"""Names in the order of the hash tables of Java 17, which printed these orders."""

from moldau.connect.transforms.hash_order import in_hash_order


def test_names_come_by_their_place_in_the_table() -> None:
    assert in_hash_order(["x.y", "d.e", "id", "name", None, "id"]) == [None, "x.y", "name", "d.e", "id"]


def test_a_table_grows_with_its_names() -> None:
    names = [chr(ord("a") + number) for number in range(16)]
    assert in_hash_order(names) == names  # thirty-two places from 97 on
    assert in_hash_order(["p", "a"]) == ["p", "a"]  # sixteen places: 112 is 0, 97 is 1
