"""Serializers without a schema, as they travel to other processes."""

import pickle

from moldau.serde import plain


def test_the_ones_of_this_module_stay_themselves_in_another_process() -> None:
    for serde in (plain.STRING, plain.LONG, plain.DOUBLE, plain.BYTES):
        assert pickle.loads(pickle.dumps(serde)) is serde
