"""The one central table: which APIs this broker answers, in which versions, and by which file.

ApiVersions answers from it and ``docs/protocol.md`` is generated from it, so that nothing is
advertised that is not answered. A handler is imported when its API is first asked for, which keeps
the start of a broker short.
"""

from importlib import import_module
from typing import Any

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import ErrorCode


class Api:
    """One API; ``handle(request, context)`` returns a response, None, a ``Parked`` or an awaitable."""

    __slots__ = ("advertised", "maximum", "minimum", "module")

    def __init__(self, module: str, minimum: int, maximum: int, *, advertised: bool = True) -> None:
        self.module = module
        self.minimum = minimum
        self.maximum = maximum
        #: Kafka answers a few APIs that it does not list while no plug-in asks for them; ours are private.
        self.advertised = advertised

    @property
    def handle(self) -> Any:
        return self._load().handle

    @property
    def fail(self) -> Any:
        """``fail(request, error, context)`` is the answer when the handler as a whole raised."""
        return self._load().fail

    def _load(self) -> Any:
        return import_module(f"{__name__}.{self.module}")


TABLE: dict[ApiKey, Api] = {
    ApiKey.PRODUCE: Api("produce", 0, 13),
    ApiKey.FETCH: Api("fetch", 4, 18),
    ApiKey.LIST_OFFSETS: Api("list_offsets", 1, 11),
    ApiKey.METADATA: Api("metadata", 0, 13),
    ApiKey.OFFSET_COMMIT: Api("offset_commit", 2, 10),
    ApiKey.OFFSET_FETCH: Api("offset_fetch", 1, 10),
    ApiKey.FIND_COORDINATOR: Api("find_coordinator", 0, 6),
    ApiKey.JOIN_GROUP: Api("join_group", 0, 9),
    ApiKey.HEARTBEAT: Api("heartbeat", 0, 4),
    ApiKey.LEAVE_GROUP: Api("leave_group", 0, 5),
    ApiKey.SYNC_GROUP: Api("sync_group", 0, 5),
    ApiKey.DESCRIBE_GROUPS: Api("describe_groups", 0, 6),
    ApiKey.LIST_GROUPS: Api("list_groups", 0, 5),
    ApiKey.API_VERSIONS: Api("api_versions", 0, 4),
    ApiKey.CREATE_TOPICS: Api("create_topics", 2, 7),
    ApiKey.DELETE_TOPICS: Api("delete_topics", 1, 6),
    ApiKey.DELETE_RECORDS: Api("delete_records", 0, 2),
    ApiKey.INIT_PRODUCER_ID: Api("init_producer_id", 0, 6),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Api("offset_for_leader_epoch", 2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: Api("add_partitions_to_txn", 0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: Api("add_offsets_to_txn", 0, 4),
    ApiKey.END_TXN: Api("end_txn", 0, 5),
    ApiKey.WRITE_TXN_MARKERS: Api("write_txn_markers", 1, 2),
    ApiKey.TXN_OFFSET_COMMIT: Api("txn_offset_commit", 0, 5),
    ApiKey.DESCRIBE_CONFIGS: Api("describe_configs", 1, 4),
    ApiKey.ALTER_CONFIGS: Api("alter_configs", 0, 2),
    ApiKey.DESCRIBE_LOG_DIRS: Api("describe_log_dirs", 1, 5),
    ApiKey.CREATE_PARTITIONS: Api("create_partitions", 0, 3),
    ApiKey.DELETE_GROUPS: Api("delete_groups", 0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Api("incremental_alter_configs", 0, 1),
    ApiKey.OFFSET_DELETE: Api("offset_delete", 0, 0),
    ApiKey.DESCRIBE_CLUSTER: Api("describe_cluster", 0, 2),
    ApiKey.DESCRIBE_PRODUCERS: Api("describe_producers", 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: Api("describe_transactions", 0, 0),
    ApiKey.LIST_TRANSACTIONS: Api("list_transactions", 0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: Api("consumer_group_heartbeat", 0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Api("consumer_group_describe", 0, 1),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: Api("get_telemetry_subscriptions", 0, 0, advertised=False),
    ApiKey.PUSH_TELEMETRY: Api("push_telemetry", 0, 0, advertised=False),
    ApiKey.LIST_CONFIG_RESOURCES: Api("list_config_resources", 0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Api("describe_topic_partitions", 0, 0),
    # Our own: see docs/time-travel.md. Only a client that calls itself "moldau" is told of them.
    ApiKey.FORK_TOPIC: Api("fork_topic", 0, 0, advertised=False),
    ApiKey.BEGIN_RESTORE: Api("begin_restore", 0, 0, advertised=False),
    ApiKey.RESTORE_BATCHES: Api("restore_batches", 0, 0, advertised=False),
    ApiKey.END_RESTORE: Api("end_restore", 0, 0, advertised=False),
}


def unsupported_api_versions() -> Any:
    """What a client hears that asks for ApiVersions in a version of the future: which ones there are."""
    from moldau.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

    own = TABLE[ApiKey.API_VERSIONS]
    listed = [ApiVersion(ApiKey.API_VERSIONS, own.minimum, own.maximum)]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=listed)
