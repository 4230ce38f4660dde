"""Records of a request in columns: each goes to its partition, and those of one stay in order."""

from hypothesis import given
from hypothesis import strategies as st

from moldau.client.producer.partitioner import partition_of
from moldau.rest.plain_records import PlainRecords
from moldau.rest.producing import by_partition

keys = st.none() | st.binary(max_size=4)


def column(of, count):
    return st.none() | st.lists(of, min_size=count, max_size=count)


@given(
    st.integers(1, 8).flatmap(
        lambda count: st.tuples(
            st.just([b"v"] * count), column(keys, count), column(st.none() | st.integers(0, 3), count)
        )
    ),
    st.none() | st.integers(0, 3),
    st.integers(1, 4),
)
def test_every_record_goes_to_its_partition(columns, of_request, partition_count):
    records = PlainRecords(*columns)
    found = {}
    for chosen, places in by_partition(records, of_request, partition_count):
        assert list(places) == sorted(places)
        found |= dict.fromkeys(places, chosen)
    assert sorted(found) == list(range(len(records.values)))
    for place, chosen in found.items():
        key = None if records.keys is None else records.keys[place]
        own = None if records.partitions is None else records.partitions[place]
        if of_request is not None:
            assert chosen == of_request
        elif own is not None:
            assert chosen == own
        elif key is not None:
            assert chosen == partition_of(key, partition_count)
        else:
            assert chosen is None or partition_count == 1
