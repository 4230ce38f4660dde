"""DescribeLogDirs: the directories of a broker and what they hold.

A null list of topics asks for all. Version 3 adds an error code for the whole, version 4 the size of the
volume.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int16, Int32, Int64, String, field, request, response, struct


@struct
class DescribableLogDirTopic:
    topic: String = field()
    partitions: list[Int32] = field()


@request(ApiKey.DESCRIBE_LOG_DIRS)
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = field()


@struct
class DescribeLogDirsPartition:
    partition_index: Int32 = field()
    partition_size: Int64 = field()
    offset_lag: Int64 = field()
    is_future_key: Bool = field()


@struct
class DescribeLogDirsTopic:
    name: String = field()
    partitions: list[DescribeLogDirsPartition] = field()


@struct
class DescribeLogDirsResult:
    error_code: Int16 = field()
    log_dir: String = field()
    topics: list[DescribeLogDirsTopic] = field()
    total_bytes: Int64 = field("4+", default=-1)
    usable_bytes: Int64 = field("4+", default=-1)
    is_cordoned: Bool = field("5+")


@response(ApiKey.DESCRIBE_LOG_DIRS)
class DescribeLogDirsResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field("3+")
    results: list[DescribeLogDirsResult] = field()
