"""The metrics of a broker, by Kafka's names. What is here is measured; Kafka's other metrics are of parts
that this broker does not have (raft, remote storage, share groups, a pool of network threads).

Invariant: help says what the number means, and what it should be where there is such a thing.
"""

from moldau.metrics.table import Metric, attribute, counter, gauge, histogram, meter, share, timer

_PLACE = ("topic", "partition")

# --- partitions and logs ------------------------------------------------------------------------------

PARTITION = {
    name: gauge("kafka.cluster", "Partition", name, text, *_PLACE)
    for name, text in {
        "UnderReplicated": "1 where this broker leads and not every replica is in sync; should be 0",
        "UnderMinIsr": "1 where fewer replicas are in sync than min.insync.replicas: no acks=all",
        "AtMinIsr": "1 where just min.insync.replicas are in sync",
        "InSyncReplicasCount": "Replicas in sync, where this broker leads",
        "ReplicasCount": "Replicas, where this broker leads",
        "LastStableOffsetLag": "Records above the last stable offset: open transactions",
    }.items()
}
LOG = {
    name: gauge("kafka.log", "Log", name, text, *_PLACE, unit=unit)
    for name, (text, unit) in {
        "LogStartOffset": ("The first offset of the log", "offset"),
        "LogEndOffset": ("The offset of the next record", "offset"),
        "NumLogSegments": ("Segments of the log", "segments"),
        "Size": ("Bytes of the log's segments", "bytes"),
        "RetentionSizeInPercent": ("Size as per cent of retention.bytes; 0 without such a limit", "percent"),
    }.items()
}
LOG_FLUSH = timer(
    "kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs", "How long the disk takes to flush a log"
)
OFFLINE_DIRECTORIES = gauge(
    "kafka.log", "LogManager", "OfflineLogDirectoryCount", "Data directories that failed; should be 0"
)
DIRECTORY_OFFLINE = gauge(
    "kafka.log", "LogManager", "LogDirectoryOffline", "1 where a data directory has failed", "logDirectory"
)
DIRECTORY_TOTAL = gauge(
    "moldau.log",
    "LogDirectory",
    "TotalBytes",
    "Size of the volume of a data directory",
    "logDirectory",
    unit="bytes",
)
DIRECTORY_USABLE = gauge(
    "moldau.log",
    "LogDirectory",
    "UsableBytes",
    "Free bytes of the volume of a data directory",
    "logDirectory",
    unit="bytes",
)
UNCLEANABLE = gauge(
    "kafka.log",
    "LogCleanerManager",
    "uncleanable-partitions-count",
    "Partitions that cannot be compacted, because of a corrupt batch; should be 0",
    "logDirectory",
)
UNCLEANABLE_BYTES = gauge(
    "kafka.log",
    "LogCleanerManager",
    "uncleanable-bytes",
    "Bytes of partitions that cannot be compacted",
    "logDirectory",
    unit="bytes",
)
MAX_DIRTY = gauge(
    "kafka.log",
    "LogCleanerManager",
    "max-dirty-percent",
    "The largest part of a compacted log that was not compacted yet, at the last look",
    unit="percent",
)
SINCE_CLEANING = gauge(
    "kafka.log",
    "LogCleanerManager",
    "time-since-last-run-ms",
    "Since compaction last looked for work",
    unit="ms",
)
MAX_CLEAN_TIME = gauge(
    "kafka.log", "LogCleaner", "max-clean-time-secs", "How long the last compaction took", unit="seconds"
)
DIRECTORY_REFUSES = gauge(
    "moldau.log",
    "LogDirectory",
    "RefusesProduce",
    "1 while a data directory has too little room for producers",
    "logDirectory",
)
CLEANINGS = counter("moldau.log", "LogCleaner", "Cleanings", "Compactions that have ended")

# --- traffic ------------------------------------------------------------------------------------------

_TRAFFIC = {
    "MessagesInPerSec": ("messages_in", "messages", "Records that were appended, not copied from a leader"),
    "BytesInPerSec": ("bytes_in", "bytes", "Bytes that producers sent"),
    "BytesOutPerSec": ("bytes_out", "bytes", "Bytes that consumers were sent, without followers"),
    "TotalProduceRequestsPerSec": ("produce_requests", "requests", "Batches that producers had appended"),
    "TotalFetchRequestsPerSec": ("fetch_requests", "requests", "Answers to fetches that mention the topic"),
}
#: By the field of ``Traffic``: for all topics, and for one.
TRAFFIC = {
    field: (
        meter("kafka.server", "BrokerTopicMetrics", name, text, unit=unit),
        meter("kafka.server", "BrokerTopicMetrics", name, text, "topic", unit=unit),
    )
    for name, (field, unit, text) in _TRAFFIC.items()
}
REPLICATION = {
    "replication_bytes_in": meter(
        "kafka.server",
        "BrokerTopicMetrics",
        "ReplicationBytesInPerSec",
        "Bytes copied from leaders",
        unit="bytes",
    ),
    "replication_bytes_out": meter(
        "kafka.server",
        "BrokerTopicMetrics",
        "ReplicationBytesOutPerSec",
        "Bytes that followers were sent",
        unit="bytes",
    ),
}
#: By name: for all topics, and for one.
FAILURES = {
    name: (
        meter("kafka.server", "BrokerTopicMetrics", name, text, unit=unit),
        meter("kafka.server", "BrokerTopicMetrics", name, text, "topic", unit=unit),
    )
    for name, (text, unit) in {
        "FailedProduceRequestsPerSec": ("Batches that were refused", "requests"),
        "FailedFetchRequestsPerSec": ("Partitions whose fetch was refused", "requests"),
        "BytesRejectedPerSec": ("Bytes of batches that were too large", "bytes"),
        "InvalidMessageCrcRecordsPerSec": ("Batches with a wrong checksum, or damaged", "requests"),
        "InvalidOffsetOrSequenceRecordsPerSec": (
            "Batches out of order, by their sequence numbers",
            "requests",
        ),
    }.items()
}

# --- replicas -----------------------------------------------------------------------------------------

_OF_REPLICAS = "kafka.server", "ReplicaManager"
REPLICAS = {
    name: gauge(*_OF_REPLICAS, name, text)
    for name, text in {
        "UnderReplicatedPartitions": "Partitions led here whose replicas are not all in sync; should be 0",
        "UnderMinIsrPartitionCount": "Partitions led here with too few replicas in sync; should be 0",
        "AtMinIsrPartitionCount": "Partitions led here with just as many replicas in sync as they need",
        "LeaderCount": "Partitions that this broker leads",
        "PartitionCount": "Partitions of which this broker has a replica",
        "OfflineReplicaCount": "Replicas whose log cannot be used; should be 0",
        "ReassigningPartitions": "Partitions led here that move to other brokers",
        "ProducerIdCount": "Idempotent producers that the logs remember",
        "PartitionsWithLateTransactionsCount": "Partitions with a transaction open for longer than it may be",
    }.items()
}
ISR = {
    name: meter(*_OF_REPLICAS, name, text, unit=unit)
    for name, (text, unit) in {
        "IsrShrinksPerSec": ("Replicas that a leader found out of sync", "shrinks"),
        "IsrExpandsPerSec": ("Replicas that are in sync again", "expands"),
        "FailedIsrUpdatesPerSec": ("Changes of these that the controller refused", "failedUpdates"),
    }.items()
}
FOLLOWER_LAG = gauge(
    "kafka.server",
    "FetcherLagMetrics",
    "ConsumerLag",
    "Records by which this follower is behind its leader",
    "clientId",
    *_PLACE,
    unit="records",
)
MAX_LAG = gauge(
    "kafka.server",
    "ReplicaFetcherManager",
    "MaxLag",
    "The largest of these; grows when a follower cannot keep up",
    "clientId",
    unit="records",
)
FAILED_FOLLOWS = gauge(
    "kafka.server",
    "ReplicaFetcherManager",
    "FailedPartitionsCount",
    "Partitions whose copying is held back after an error",
    "clientId",
)

# --- requests -----------------------------------------------------------------------------------------

_REQUESTS = "kafka.network", "RequestMetrics"
REQUESTS = meter(*_REQUESTS, "RequestsPerSec", "Requests by API and version", "request", "version")
ERRORS = meter(*_REQUESTS, "ErrorsPerSec", "Errors in answers, by API and error", "request", "error")
#: By the field of ``ApiTimes``.
TIMES = {
    field: histogram(*_REQUESTS, name, text, "request", unit=unit)
    for field, (name, text, unit) in {
        "total": ("TotalTimeMs", "From the read of the request to its answer", "ms"),
        "queue": ("RequestQueueTimeMs", "From the read of the request to its handler", "ms"),
        "local": ("LocalTimeMs", "In the handler", "ms"),
        "remote": ("RemoteTimeMs", "Waiting: for followers, data, a disk, another broker", "ms"),
        "throttle": ("ThrottleTimeMs", "How long clients were told to wait by a quota", "ms"),
        "send": ("ResponseSendTimeMs", "Encoding the answer and handing it to the socket", "ms"),
        "request_bytes": ("RequestBytes", "Size of requests", "bytes"),
    }.items()
}
REQUEST_QUEUE = gauge(
    "kafka.network", "RequestChannel", "RequestQueueSize", "Connections whose requests wait for their turn"
)
RESPONSE_QUEUE = gauge(
    "kafka.network",
    "RequestChannel",
    "ResponseQueueSize",
    "Connections with answers that the client has not taken yet",
)
NETWORK_IDLE = gauge(
    "kafka.network",
    "SocketServer",
    "NetworkProcessorAvgIdlePercent",
    "Share of time in which the broker's thread has nothing to do, 0 to 1; trouble below 0.3",
)
HANDLER_IDLE = share(
    "kafka.server",
    "KafkaRequestHandlerPool",
    "RequestHandlerAvgIdlePercent",
    "The same, decayed over minutes",
)
PURGATORY = {
    name: gauge("kafka.server", "DelayedOperationPurgatory", name, text, "delayedOperation")
    for name, text in {
        "PurgatorySize": "Requests that wait, by what they are",
        "NumDelayedOperations": "The same: a request that is answered leaves at once",
    }.items()
}
EXPIRED_FETCHES = meter(
    "kafka.server",
    "DelayedFetchMetrics",
    "ExpiresPerSec",
    "Fetches that waited in vain for data",
    "fetcherType",
)
EXPIRED_PRODUCES = meter(
    "kafka.server", "DelayedProduceMetrics", "ExpiresPerSec", "Produce requests whose followers were too slow"
)
FETCH_SESSIONS = gauge("kafka.server", "FetchSessionCache", "NumIncrementalFetchSessions", "Fetch sessions")
SESSION_PARTITIONS = gauge(
    "kafka.server", "FetchSessionCache", "NumIncrementalFetchPartitionsCached", "Partitions in fetch sessions"
)
SESSION_EVICTIONS = meter(
    "kafka.server",
    "FetchSessionCache",
    "IncrementalFetchSessionEvictionsPerSec",
    "Fetch sessions that made room for others",
    unit="evictions",
)

# --- connections, clients, quotas -----------------------------------------------------------------------

_LISTENER = ("listener", "networkProcessor")
CONNECTIONS = {
    name: attribute(
        "kafka.server", "socket-server-metrics", name, text, *_LISTENER, grows=name.endswith("total")
    )
    for name, text in {
        "connection-count": "Open connections",
        "connection-creation-total": "Connections that were opened",
        "connection-close-total": "Connections that have ended",
        "incoming-byte-total": "Bytes received",
        "outgoing-byte-total": "Bytes sent",
        "successful-authentication-total": "Logins",
        "failed-authentication-total": "Logins that were refused",
    }.items()
}
BY_SOFTWARE = attribute(
    "kafka.server",
    "socket-server-metrics",
    "connections",
    "Open connections by client library",
    "clientSoftwareName",
    "clientSoftwareVersion",
    *_LISTENER,
)
CERTIFICATE = gauge(
    "moldau.security",
    "Certificate",
    "ExpiresInSeconds",
    "How long the certificate of a listener is still good",
    "listener",
    unit="seconds",
)
#: By what is limited, and by user, client id or both: the rate, which is what the quota limits.
QUOTAS: dict[tuple[str, tuple[str, ...]], Metric] = {
    (type_, keys): attribute("kafka.server", type_, name, text, *keys)
    for type_, name, text in (
        ("Produce", "byte-rate", "Bytes a second that clients with a quota produce"),
        ("Fetch", "byte-rate", "Bytes a second that clients with a quota fetch"),
        ("Request", "request-time", "Per cent of the broker's time that clients with a quota use"),
    )
    for keys in (("user",), ("client-id",), ("user", "client-id"))
}
CLIENT_INSTANCES = attribute(
    "kafka.server", "client-metrics", "instance-count", "Clients that have asked what metrics to push"
)
UNKNOWN_SUBSCRIPTIONS = attribute(
    "kafka.server",
    "client-metrics",
    "unknown-subscription-request-count",
    "Pushes for a subscription that has changed",
    grows=True,
)
TELEMETRY_PUSHES = attribute(
    "kafka.server",
    "client-metrics",
    "plugin-export-count",
    "Pushes of client metrics that were taken",
    grows=True,
)

# --- coordinators ---------------------------------------------------------------------------------------

_GROUPS = "kafka.coordinator.group", "GroupMetadataManager"
GROUP_COUNT = gauge(*_GROUPS, "NumGroups", "Classic groups that this broker coordinates")
#: By the name of the state.
GROUP_STATES = {
    state: gauge(*_GROUPS, f"NumGroups{state}", f"Of these, in the state {state}")
    for state in ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
}
OFFSETS = gauge(*_GROUPS, "NumOffsets", "Committed offsets that this broker keeps")
GROUPS_BY_PROTOCOL = attribute(
    "kafka.server", "group-coordinator-metrics", "group-count", "Groups by protocol", "protocol"
)
CONSUMER_GROUPS = attribute(
    "kafka.server",
    "group-coordinator-metrics",
    "consumer-group-count",
    "Consumer groups (KIP-848) by state",
    "state",
)
GROUP_PARTITIONS = attribute(
    "kafka.server",
    "group-coordinator-metrics",
    "num-partitions",
    "Partitions of the coordinator by state",
    "state",
)
LOAD_TIMES = {
    (kind, name): attribute("kafka.server", f"{kind}-coordinator-metrics", name, text, unit="ms")
    for kind in ("group", "transaction")
    for name, text in (
        ("partition-load-time-max", "The longest time that a partition took to load"),
        ("partition-load-time-avg", "The mean time that a partition took to load"),
    )
}
TRANSACTIONS = gauge(
    "moldau.coordinator", "Transactions", "TransactionCount", "Transactional ids, by state", "state"
)

# --- the controller -------------------------------------------------------------------------------------

_CONTROLLER = "kafka.controller", "KafkaController"
CONTROLLER = {
    name: gauge(*_CONTROLLER, name, text)
    for name, text in {
        "ActiveControllerCount": "1 on the controller, 0 elsewhere; the sum over the cluster should be 1",
        "OfflinePartitionsCount": "Partitions without a leader; should be 0",
        "PreferredReplicaImbalanceCount": "Partitions that another replica leads than the first one",
        "GlobalTopicCount": "Topics of the cluster",
        "GlobalPartitionCount": "Partitions of the cluster",
        "ActiveBrokerCount": "Brokers that are there",
        "FencedBrokerCount": "Brokers that are registered and not there",
        "LastAppliedRecordOffset": "Version of the metadata",
    }.items()
}
_STATS = "kafka.controller", "ControllerStats"
ELECTIONS = timer(
    *_STATS, "LeaderElectionRateAndTimeMs", "Elections of leaders, and how long the controller took"
)
UNCLEAN = meter(
    *_STATS, "UncleanLeaderElectionsPerSec", "Leaders that may lack records; should be 0", unit="elections"
)
FROM_ELR = meter(
    *_STATS,
    "ElectionFromEligibleLeaderReplicasPerSec",
    "Leaders that were out of sync and have every record",
    unit="elections",
)

# --- the server and its process --------------------------------------------------------------------------

STATE = gauge("kafka.server", "KafkaServer", "BrokerState", "3: running; 6: about to stop")
CLUSTER_ID = gauge("kafka.server", "KafkaServer", "ClusterId", "The id of the cluster")
DISK_READ = gauge(
    "kafka.server", "KafkaServer", "linux-disk-read-bytes", "Bytes read from disks", unit="bytes"
)
DISK_WRITE = gauge(
    "kafka.server", "KafkaServer", "linux-disk-write-bytes", "Bytes written to disks", unit="bytes"
)
CONTROLLER_ID = gauge("kafka.server", "MetadataLoader", "CurrentControllerId", "Who is the controller")
FEATURES = gauge("kafka.server", "MetadataLoader", "FinalizedLevel", "Level of a feature", "featureName")
VERSION = attribute("kafka.server", "app-info", "version", "Version of this broker")
START_TIME = attribute("kafka.server", "app-info", "start-time-ms", "When this broker was started", unit="ms")
LOOP_LAG = histogram(
    "moldau.broker",
    "EventLoop",
    "LagMs",
    "By how much the broker's thread is late for a timer; all requests wait that long",
)
LOOP_HOLDS = counter(
    "moldau.broker",
    "EventLoop",
    "Holds",
    "How often a function kept the broker's thread for more than 50 ms",
    "function",
)
LONGEST_HOLD = gauge(
    "moldau.broker", "EventLoop", "LongestHoldMs", "The longest time that one kept it", unit="ms"
)
CLOCK_JUMPS = counter("moldau.broker", "Clock", "Jumps", "How often the time of the machine has jumped")
CLOCK_LAST_JUMP = gauge(
    "moldau.broker", "Clock", "LastJumpMs", "By how much it has jumped the last time; less than 0 is back"
)
OPEN_FILES = attribute("java.lang", "OperatingSystem", "OpenFileDescriptorCount", "Open files and sockets")
MAX_FILES = attribute("java.lang", "OperatingSystem", "MaxFileDescriptorCount", "How many may be open")
CPU_TIME = attribute("java.lang", "OperatingSystem", "ProcessCpuTime", "CPU time, in nanoseconds", grows=True)
TOTAL_SWAP = attribute(
    "java.lang", "OperatingSystem", "TotalSwapSpaceSize", "Swap of the machine", unit="bytes"
)
FREE_SWAP = attribute(
    "java.lang", "OperatingSystem", "FreeSwapSpaceSize", "What is left of the swap", unit="bytes"
)
RESIDENT = gauge(
    "moldau.broker", "Memory", "ResidentBytes", "Memory that the process has in use", unit="bytes"
)
