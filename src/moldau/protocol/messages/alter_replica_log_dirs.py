"""AlterReplicaLogDirs: moves replicas to another directory.

Sent to the broker that shall move them on its own disks; the directories are absolute paths.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, field, request, response, struct


@struct
class AlterReplicaLogDirTopic:
    name: String = field()
    partitions: list[Int32] = field()


@struct
class AlterReplicaLogDir:
    path: String = field()
    topics: list[AlterReplicaLogDirTopic] = field()


@request(ApiKey.ALTER_REPLICA_LOG_DIRS)
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir] = field()


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: Int32 = field()
    error_code: Int16 = field()


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: String = field()
    partitions: list[AlterReplicaLogDirPartitionResult] = field()


@response(ApiKey.ALTER_REPLICA_LOG_DIRS)
class AlterReplicaLogDirsResponse:
    throttle_time_ms: Int32 = field()
    results: list[AlterReplicaLogDirTopicResult] = field()
