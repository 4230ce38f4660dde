"""The numbers of the APIs, by their names in Kafka's protocol, and the versions that are spoken here.

Invariant: this is the only place that says which versions of an API there are. The messages are compiled
for these, the broker answers and advertises these, the client chooses among these.
"""

from enum import IntEnum
from typing import NamedTuple

#: Kafka does not use the numbers from here on: they are Moldau's own APIs.
FIRST_PRIVATE_KEY = 32000


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    # Moldau's own, which ApiVersions lists only for Moldau's client.
    FORK_TOPIC = 32000
    BEGIN_RESTORE = 32001
    RESTORE_BATCHES = 32002
    END_RESTORE = 32003
    MIRROR_BATCHES = 32004
    CUT_MIRROR = 32005
    RAISE_LEADER_EPOCHS = 32006
    BRANCH_PARTITIONS = 32007


class ApiVersions(NamedTuple):
    """The first and the last version of an API, and the first one that is flexible (KIP-482), if any."""

    first: int
    last: int
    first_flexible: int | None


VERSIONS: dict[ApiKey, ApiVersions] = {
    ApiKey.PRODUCE: ApiVersions(0, 13, 9),
    ApiKey.FETCH: ApiVersions(4, 18, 12),
    ApiKey.LIST_OFFSETS: ApiVersions(1, 11, 6),
    ApiKey.METADATA: ApiVersions(0, 13, 9),
    ApiKey.OFFSET_COMMIT: ApiVersions(2, 10, 8),
    ApiKey.OFFSET_FETCH: ApiVersions(1, 10, 6),
    ApiKey.FIND_COORDINATOR: ApiVersions(0, 6, 3),
    ApiKey.JOIN_GROUP: ApiVersions(0, 9, 6),
    ApiKey.HEARTBEAT: ApiVersions(0, 4, 4),
    ApiKey.LEAVE_GROUP: ApiVersions(0, 5, 4),
    ApiKey.SYNC_GROUP: ApiVersions(0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: ApiVersions(0, 6, 5),
    ApiKey.LIST_GROUPS: ApiVersions(0, 5, 3),
    ApiKey.SASL_HANDSHAKE: ApiVersions(0, 1, None),
    ApiKey.API_VERSIONS: ApiVersions(0, 4, 3),
    ApiKey.CREATE_TOPICS: ApiVersions(2, 7, 5),
    ApiKey.DELETE_TOPICS: ApiVersions(1, 6, 4),
    ApiKey.DELETE_RECORDS: ApiVersions(0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: ApiVersions(0, 6, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ApiVersions(2, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: ApiVersions(0, 5, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: ApiVersions(0, 4, 3),
    ApiKey.END_TXN: ApiVersions(0, 5, 3),
    ApiKey.WRITE_TXN_MARKERS: ApiVersions(1, 2, 1),
    ApiKey.TXN_OFFSET_COMMIT: ApiVersions(0, 5, 3),
    ApiKey.DESCRIBE_ACLS: ApiVersions(1, 3, 2),
    ApiKey.CREATE_ACLS: ApiVersions(1, 3, 2),
    ApiKey.DELETE_ACLS: ApiVersions(1, 3, 2),
    ApiKey.DESCRIBE_CONFIGS: ApiVersions(1, 4, 4),
    ApiKey.ALTER_CONFIGS: ApiVersions(0, 2, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ApiVersions(1, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: ApiVersions(1, 5, 2),
    ApiKey.SASL_AUTHENTICATE: ApiVersions(0, 2, 2),
    ApiKey.CREATE_PARTITIONS: ApiVersions(0, 3, 2),
    ApiKey.CREATE_DELEGATION_TOKEN: ApiVersions(1, 3, 2),
    ApiKey.RENEW_DELEGATION_TOKEN: ApiVersions(1, 2, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: ApiVersions(1, 2, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: ApiVersions(1, 3, 2),
    ApiKey.DELETE_GROUPS: ApiVersions(0, 2, 2),
    ApiKey.ELECT_LEADERS: ApiVersions(0, 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ApiVersions(0, 1, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ApiVersions(0, 1, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ApiVersions(0, 0, 0),
    ApiKey.OFFSET_DELETE: ApiVersions(0, 0, None),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ApiVersions(0, 1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: ApiVersions(0, 1, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ApiVersions(0, 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ApiVersions(0, 0, 0),
    ApiKey.DESCRIBE_QUORUM: ApiVersions(0, 2, 0),
    ApiKey.ALTER_PARTITION: ApiVersions(2, 3, 0),
    ApiKey.UPDATE_FEATURES: ApiVersions(0, 2, 0),
    ApiKey.ENVELOPE: ApiVersions(0, 0, 0),
    ApiKey.DESCRIBE_CLUSTER: ApiVersions(0, 2, 0),
    ApiKey.DESCRIBE_PRODUCERS: ApiVersions(0, 0, 0),
    ApiKey.BROKER_REGISTRATION: ApiVersions(0, 4, 0),
    ApiKey.BROKER_HEARTBEAT: ApiVersions(0, 2, 0),
    ApiKey.UNREGISTER_BROKER: ApiVersions(0, 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: ApiVersions(0, 0, 0),
    ApiKey.LIST_TRANSACTIONS: ApiVersions(0, 2, 0),
    ApiKey.ALLOCATE_PRODUCER_IDS: ApiVersions(0, 0, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ApiVersions(0, 1, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ApiVersions(0, 1, 0),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: ApiVersions(0, 0, 0),
    ApiKey.PUSH_TELEMETRY: ApiVersions(0, 0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: ApiVersions(0, 1, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ApiVersions(0, 0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: ApiVersions(1, 1, 0),
    ApiKey.SHARE_GROUP_DESCRIBE: ApiVersions(1, 1, 0),
    ApiKey.SHARE_FETCH: ApiVersions(1, 2, 0),
    ApiKey.SHARE_ACKNOWLEDGE: ApiVersions(1, 2, 0),
    ApiKey.ADD_RAFT_VOTER: ApiVersions(0, 1, 0),
    ApiKey.REMOVE_RAFT_VOTER: ApiVersions(0, 0, 0),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: ApiVersions(0, 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: ApiVersions(0, 0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: ApiVersions(0, 1, 0),
    ApiKey.DELETE_SHARE_GROUP_STATE: ApiVersions(0, 0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: ApiVersions(0, 1, 0),
    ApiKey.STREAMS_GROUP_HEARTBEAT: ApiVersions(0, 0, 0),
    ApiKey.STREAMS_GROUP_DESCRIBE: ApiVersions(0, 0, 0),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: ApiVersions(0, 1, 0),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: ApiVersions(0, 0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: ApiVersions(0, 0, 0),
    ApiKey.FORK_TOPIC: ApiVersions(0, 0, 0),
    ApiKey.BEGIN_RESTORE: ApiVersions(0, 0, 0),
    ApiKey.RESTORE_BATCHES: ApiVersions(0, 0, 0),
    ApiKey.END_RESTORE: ApiVersions(0, 0, 0),
    ApiKey.MIRROR_BATCHES: ApiVersions(0, 0, 0),
    ApiKey.CUT_MIRROR: ApiVersions(0, 0, 0),
    ApiKey.RAISE_LEADER_EPOCHS: ApiVersions(0, 0, 0),
    ApiKey.BRANCH_PARTITIONS: ApiVersions(0, 0, 0),
}
