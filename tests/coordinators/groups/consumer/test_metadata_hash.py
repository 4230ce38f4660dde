"""The hash of a group's topics against numbers that Kafka 4.3.0 wrote, and XXH3 against its own library."""

import pytest

from moldau.base.names import parse_uuid
from moldau.coordinators.groups.consumer.metadata_hash import group_hash, topic_hash, xxh3_64

#: Lengths with the hash of that many bytes, as hash4j 0.22 has it.
KNOWN = {
    0: 3244421341483603138, 1: 1433843135270481901, 3: -6266602912829716452, 4: 7895465118229274323,
    8: 6941064856527638883, 9: -72226354546400344, 16: -5131753158909839995, 17: 8163341949877205007,
    100: -5362810412169982817, 128: 7440608504995537343, 129: -4150982730466284604,
    200: 8389308914288017243, 240: 7229805477010515663, 241: -8364630114420064745, 300: -172648679454408153,
    1024: -7241394453710343503, 1025: -9192937061388044938, 5000: 8762507191635236893,
}  # fmt: skip


@pytest.mark.parametrize("size", KNOWN)
def test_xxh3_of_every_kind_of_length(size: int) -> None:
    assert xxh3_64(bytes((7 * index + 3) % 256 for index in range(size))) == KNOWN[size] % (1 << 64)


def test_hashes_of_real_groups() -> None:
    b1 = topic_hash("b1", parse_uuid("xjJhKHLGS5qvc4MyIxULIQ"), 1)
    b3 = topic_hash("b3", parse_uuid("rb2lfwGoSCeS1F4abbcB3A"), 3)
    orders = topic_hash("orders", parse_uuid("POjc0XOnTtapx_rUmgcbdA"), 3)
    assert group_hash({"b1": b1}) == -5879778003464790488
    assert group_hash({"b3": b3}) == -2396718930116813914
    assert group_hash({"b3": b3, "b1": b1}) == -432525964557070815
    assert group_hash({"orders": orders}) == 6353927337640539094
    assert group_hash({}) == 0
