import pytest

from moldau.base.names import TopicPartition
from moldau.spark.options import OPTIONS, OptionError, describe, read_options, write_options
from moldau.spark.read.offsets import AtOffsets, AtTimestamp, AtTimestamps, Earliest, Latest

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def read(streaming: bool = False, **more: str):  # type: ignore[no-untyped-def]
    options = {**SERVERS, "subscribe": "orders", **more}
    return read_options({k: v for k, v in options.items() if v is not None}, streaming=streaming)


def test_defaults_of_a_batch() -> None:
    options = read()
    assert options.topics == ("orders",)
    assert (options.start, options.end) == (Earliest(), Latest())
    assert options.read_committed
    assert options.fail_on_data_loss
    assert options.cluster.bootstrap_servers == "localhost:9092"


def test_defaults_of_a_stream() -> None:
    assert read(streaming=True).start == Latest()


def test_names_without_regard_to_case_and_those_of_spark_itself() -> None:
    options = read_options(
        {
            "KAFKA.bootstrap.servers": "a:1",
            "SUBSCRIBE": "x",
            "checkpointLocation": "c",
            "includeheaders": "TRUE",
        }
    )
    assert options.include_headers
    assert options.topics == ("x",)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"startingOffsets": "Earliest"}, Earliest()),
        (
            {"startingOffsets": '{"orders": {"0": 5, "1": -2}}'},
            AtOffsets({TopicPartition("orders", 0): 5, TopicPartition("orders", 1): -2}),
        ),
        ({"startingTimestamp": "1000"}, AtTimestamp(1000)),
        (
            {"startingOffsetsByTimestamp": '{"orders": {"0": 7}}'},
            AtTimestamps({TopicPartition("orders", 0): 7}),
        ),
        # The connector's order of precedence.
        ({"startingTimestamp": "1", "startingOffsets": "earliest"}, AtTimestamp(1)),
        (
            {"startingOffsetsByTimestamp": '{"orders": {"0": 7}}', "startingOffsets": "earliest"},
            AtTimestamps({TopicPartition("orders", 0): 7}),
        ),
    ],
)
def test_where_to_begin(given: dict[str, str], expected: object) -> None:
    assert read(**given).start == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOfsets": "earliest"}, "did you mean 'startingOffsets'"),
        ({"topic": "x"}, "'topic' is for write, not for read"),
        ({"assign": '{"a": [0]}'}, "exactly one of subscribe, subscribePattern and assign"),
        ({"subscribe": None}, "none is given"),
        ({"subscribe": " , "}, "names no topic"),
        ({"startingOffsets": "latest"}, "nothing would be read"),
        ({"endingOffsets": "earliest"}, "nothing would be read"),
        ({"startingOffsets": "yesterday"}, "neither 'earliest', 'latest' nor JSON such as"),
        ({"startingOffsets": '{"orders": [1]}'}, "expected JSON such as"),
        ({"startingOffsets": '{"orders": {"0": "1"}}'}, "expected JSON such as"),
        ({"startingOffsets": '{"orders": {"x": 1}}'}, "expected JSON such as"),
        ({"startingTimestamp": "soon"}, "startingTimestamp is a whole number"),
        ({"minPartitions": "0"}, "minPartitions is at least 1"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is true or false"),
        ({"kafka.isolation.level": "chaos"}, "read_committed or read_uncommitted"),
        ({"groupIdPrefix": "x"}, "name one with group.id"),
        ({"kafka.bootstrap.servers": ""}, "say where the cluster is"),
    ],
)
def test_what_is_refused(given: dict[str, str | None], message: str) -> None:
    with pytest.raises(OptionError, match=None) as refused:
        read(**given)  # type: ignore[arg-type]
    assert message in str(refused.value)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="has no meaning for a stream"):
        read(streaming=True, endingOffsets="latest")


def test_partitions_by_name() -> None:
    options = read_options({**SERVERS, "assign": '{"orders": [0, 2]}'})
    assert options.assignment == (TopicPartition("orders", 0), TopicPartition("orders", 2))
    assert describe(options) == "orders"
    with pytest.raises(OptionError, match="expected JSON such as"):
        read_options({**SERVERS, "assign": '{"orders": 0}'})


def test_writing() -> None:
    options = write_options({**SERVERS, "topic": "out"}, streaming=True)
    assert options.exactly_once
    assert options.idempotent
    assert options.acks == -1
    assert not write_options(SERVERS).exactly_once
    assert write_options({**SERVERS, "job.id": "j"}).exactly_once
    assert not write_options({**SERVERS, "kafka.acks": "1"}).idempotent


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kafka.acks": "2"}, "0, 1 or all"),
        ({"kafka.compression.type": "brotli"}, "none, gzip, snappy, lz4 or zstd"),
        ({"delivery": "twice"}, "exactly-once or at-least-once"),
        ({"delivery": "exactly-once"}, "needs job.id"),
        ({"delivery": "exactly-once", "job.id": "j", "kafka.acks": "1"}, "needs kafka.acks=all"),
        ({"kafka.acks": "1", "kafka.enable.idempotence": "true"}, "needs kafka.acks=all"),
        ({"subscribe": "x"}, "is for read, not for write"),
    ],
)
def test_what_is_refused_of_writing(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as refused:
        write_options({**SERVERS, **given})
    assert message in str(refused.value)


def test_the_table_says_each_name_once() -> None:
    names = [option.name.lower() for option in OPTIONS]
    assert len(set(names)) == len(names)
    assert all(option.meaning.endswith(".") for option in OPTIONS)
