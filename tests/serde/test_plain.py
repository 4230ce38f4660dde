"""Serializers without a schema, as they travel to other processes."""

import pickle
from typing import Any

from moldau.serde import plain


def test_the_ones_of_this_module_stay_themselves_in_another_process() -> None:
    for serde in (plain.STRING, plain.LONG, plain.DOUBLE, plain.BYTES):
        assert pickle.loads(pickle.dumps(serde)) is serde


class Shouting(plain.PlainSerde):
    """One's own, which does more than its pair of functions."""

    mark = "!"

    def serialize(self, topic: str, value: Any, headers: Any = None) -> bytes | None:
        data = super().serialize(topic, value, headers)
        return None if data is None else data + self.mark.encode()


def test_one_of_ones_own_stays_what_it_is_in_another_process() -> None:
    made = Shouting("shouting", str.encode, bytes.decode)
    made.mark = "!!"
    there = pickle.loads(pickle.dumps(made))
    assert (type(there), there.serialize("", "a")) == (Shouting, b"a!!")
