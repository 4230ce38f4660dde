"""``moldau kafka-broker-api-versions``: the APIs of each broker, as Kafka's BrokerApiVersionsCommand.

"usable" is the highest version that the broker and a client of Kafka 4.3 share; the table below is that of
the client. A broker that does not answer is one line.
"""

import asyncio
from collections.abc import Mapping, Sequence

from moldau.cli.kafka_tools.framework.bootstrap import (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    open_cluster,
    read_properties,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.exceptions import ToolError, exception_line, sentence
from moldau.cli.kafka_tools.framework.options import Given, OptionError, Options, require
from moldau.cli.kafka_tools.framework.tool import Console, Tool
from moldau.client.admin.admin import Admin
from moldau.client.transport.cluster import Broker
from moldau.protocol.api_keys import FIRST_PRIVATE_KEY, ApiKey
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.schema import Versions

TOOL = Tool(
    "kafka-broker-api-versions",
    "Shows which APIs the brokers of a cluster offer, in which versions.",
    Options(BOOTSTRAP_SERVER, COMMAND_CONFIG),
    ("--bootstrap-server localhost:9092",),
)

#: First and last version of each API in a client of Kafka 4.3.
_CLIENT = {
    ApiKey.PRODUCE: (0, 13),
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4),
    ApiKey.END_TXN: (0, 5),
    ApiKey.WRITE_TXN_MARKERS: (1, 2),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.CREATE_ACLS: (1, 3),
    ApiKey.DELETE_ACLS: (1, 3),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.CREATE_DELEGATION_TOKEN: (1, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: (1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (1, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.UPDATE_FEATURES: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
    ApiKey.PUSH_TELEMETRY: (0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1),
    ApiKey.SHARE_FETCH: (1, 2),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2),
    ApiKey.ADD_RAFT_VOTER: (0, 1),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: (0, 0),
    ApiKey.READ_SHARE_GROUP_STATE: (0, 0),
    ApiKey.WRITE_SHARE_GROUP_STATE: (0, 1),
    ApiKey.DELETE_SHARE_GROUP_STATE: (0, 0),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: (0, 1),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0, 0),
    ApiKey.STREAMS_GROUP_DESCRIBE: (0, 0),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0),
}

_KNOWN = frozenset(int(key) for key in ApiKey)


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        raise OptionError("This tool helps to retrieve broker version information.")
    given = TOOL.options.parse(with_bootstrap_server(arguments, console))
    require(given, "bootstrap-server")
    try:
        asyncio.run(_execute(given, console))
    except (KafkaError, ToolError) as error:
        console.error(sentence(error))
        console.error(exception_line(error))
        return 1
    return 0


def broker_text(broker: Broker) -> str:
    return f"{broker.address} (id: {broker.node_id} rack: {broker.rack or 'null'} isFenced: false)"


def version_lines(broker: Broker, offered: Mapping[int, Versions]) -> list[str]:
    """A broker with its APIs in the order of their keys; those that it lacks are UNSUPPORTED."""
    keys = sorted({key for key in offered if key < FIRST_PRIVATE_KEY} | set(_CLIENT))
    texts = [_api_text(key, offered.get(key)) for key in keys]
    return [
        f"{broker_text(broker)} -> (",
        *(f"\t{text}," for text in texts[:-1]),
        *(f"\t{text}" for text in texts[-1:]),
        ")",
    ]


def _api_text(key: int, offered: Versions | None) -> str:
    known = key in _KNOWN
    name = "".join(part.capitalize() for part in ApiKey(key).name.split("_")) if known else "UNKNOWN"
    if offered is None:
        return f"{name}({key}): UNSUPPORTED"
    first, last = offered
    text = f"{name}({key}): {first}" if first == last else f"{name}({key}): {first} to {last}"
    ours = _CLIENT.get(ApiKey(key)) if known else None
    if ours is None:
        return text
    if last < ours[0]:
        return f"{text} [unusable: node too old]"
    if first > ours[1]:
        return f"{text} [unusable: node too new]"
    return f"{text} [usable: {min(last, ours[1])}]"


async def _execute(given: Given, console: Console) -> None:
    properties = read_properties(given.value("command-config"))
    servers = given.value("bootstrap-server")
    try:
        cluster = await open_cluster(servers, properties, console, client_id="admin-1", call="metadata")
    except KafkaError as error:
        if error.code != ErrorCode.REQUEST_TIMED_OUT:
            raise
        listed = ", ".join(
            f"{server.strip()} (id: {-1 - index} rack: null isFenced: false)"
            for index, server in enumerate(servers.split(","))
        )
        message = f"Request METADATA failed on brokers [{listed}]"
        raise ToolError("java.lang.RuntimeException", message) from None
    async with cluster:
        admin = Admin(cluster)
        for node_id in sorted(cluster.brokers):
            broker = cluster.brokers[node_id]
            try:
                lines = version_lines(broker, await admin.api_versions(node_id))
            except KafkaError as error:
                lines = [f"{broker_text(broker)} -> ERROR: {exception_line(error)}"]
            for line in lines:
                console.print(line)
