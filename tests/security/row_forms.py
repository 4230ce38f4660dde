"""The request that a row stands for: its API, its version, and a case in words, as "existing topic by id".

Invariant: a row is read by the words in it, not by a list of known rows, so that rows nobody has seen here
can be played. What cannot be read is an ``Unreadable`` and nothing else.
"""

import struct
from collections.abc import Callable
from typing import Any

from moldau.base.names import format_uuid
from moldau.protocol.schema import declaration
from tests.security.row_world import Unreadable, World, batch, item, make, offset_commit
from tests.security.secure_wire import framed

# --- one function for an API, or for a family of them ------------------------------------------------------

Form = Callable[[str, int, World, str, bytes | None], Any]


def _produce(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    transactional = "transactional batch" in case or case.startswith("transactional")
    producer = None
    if transactional:
        world.begin_transaction(with_partition=True)
        producer = world.producer
    elif "idempotent" in case:
        producer = (4000, 0)
    records = batch(producer=producer, transactional=transactional)
    data = [item("produce", "PartitionProduceData", index=0, records=records)]
    named = item("produce", "TopicProduceData", name=topic, topic_id=topic_id or b"", partition_data=data)
    request = make("Produce", acks=-1, timeout_ms=5000, topic_data=[named])
    request.transactional_id = world.transactional_id if transactional else None
    return request


def _fetch(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    wanted = item("fetch", "FetchPartition", partition=0, fetch_offset=0, partition_max_bytes=1000)
    named = item("fetch", "FetchTopic", topic=topic, topic_id=topic_id or b"", partitions=[wanted])
    request = make("Fetch", max_wait_ms=0, min_bytes=0, topics=[named])
    if "follower" in case or "replica" in case:
        request.replica_id = request.replica_state.replica_id = 2
    return request


def _list_offsets(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    wanted = item("list_offsets", "ListOffsetsPartition", partition_index=0, timestamp=-1)
    return make(
        "ListOffsets",
        replica_id=-1,
        topics=[item("list_offsets", "ListOffsetsTopic", name=topic, partitions=[wanted])],
    )


def _metadata(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    by_id = " id" in case and "by name" not in case
    wanted = item("metadata", "MetadataRequestTopic", name=None if by_id else topic)
    if by_id:
        wanted.topic_id = topic_id or world.unknown_id
    creates = "auto creation" in case and "no auto creation" not in case
    return make("Metadata", topics=[wanted], allow_auto_topic_creation=creates)


def _offset_fetch(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    world.commit_offset()
    every = "null" in case or "all topics" in case
    request = make("OffsetFetch", group_id=world.group)
    named = item("offset_fetch", "OffsetFetchRequestTopic", name=topic, partition_indexes=[0])
    request.topics = None if every else [named]
    many = item("offset_fetch", "OffsetFetchRequestTopics", name=topic, partition_indexes=[0])
    many.topic_id = topic_id or world.unknown_id
    group = item("offset_fetch", "OffsetFetchRequestGroup", group_id=world.group)
    group.topics = None if every else [many]
    request.groups = [group]
    return request


def _find_coordinator(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    kinds = {"transaction": (1, world.transactional_id), "group": (0, world.group)}
    for word, (key_type, key) in kinds.items():
        if word in case and "share" not in case:
            return make("FindCoordinator", key=key, coordinator_keys=[key], key_type=key_type)
    key = f"{world.group}:{format_uuid(world.topic_ids[world.topic])}:0"
    return make("FindCoordinator", key=key, coordinator_keys=[key], key_type=2)


def _join_group(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    protocol = item("join_group", "JoinGroupRequestProtocol", name="range", metadata=b"")
    return make(
        "JoinGroup",
        group_id=world.group,
        session_timeout_ms=10000,
        rebalance_timeout_ms=10000,
        member_id="" if "new" in case else "nobody",
        protocol_type="consumer",
        protocols=[protocol],
    )


def _member(api: str) -> Form:
    def form(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
        request = make(api, group_id=world.group)
        for name, value in (("generation_id", 1), ("member_id", "nobody")):
            if hasattr(request, name):
                setattr(request, name, value)
        if api == "LeaveGroup":
            request.members = [item("leave_group", "MemberIdentity", member_id="nobody")]
        return request

    return form


def _create_topics(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    name = world.topic if "existing" in case else world.missing
    wanted = item("create_topics", "CreatableTopic", name=name, num_partitions=1, replication_factor=1)
    return make("CreateTopics", topics=[wanted], validate_only="validate" in case)


def _delete_topics(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    request = make("DeleteTopics", timeout_ms=5000)
    by_id = " id" in case
    wanted = item("delete_topics", "DeleteTopicState", name=None if by_id else topic)
    if by_id:
        wanted.topic_id = world.unknown_id if "unknown" in case else world.topic_ids[world.topic]
    request.topics, request.topic_names = [wanted], [topic]
    return _only(request, version, old="topic_names", new="topics", since=6)


def _only(request: Any, version: int, *, old: str, new: str, since: int) -> Any:
    setattr(request, old if version >= since else new, [])
    return request


def _delete_records(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    wanted = item("delete_records", "DeleteRecordsPartition", partition_index=0, offset=0)
    named = item("delete_records", "DeleteRecordsTopic", name=topic, partitions=[wanted])
    return make("DeleteRecords", topics=[named], timeout_ms=5000)


def _init_producer_id(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    transactional_id = None if case.startswith("no ") else world.transactional_id
    request = make("InitProducerId", transactional_id=transactional_id, transaction_timeout_ms=60000)
    request.producer_id = request.producer_epoch = -1
    return request


def _offset_for_leader_epoch(case: str, version: int, world: World, topic: str, _: bytes | None) -> Any:
    wanted = item("offset_for_leader_epoch", "OffsetForLeaderPartition", partition=0, leader_epoch=0)
    wanted.current_leader_epoch = -1
    named = item("offset_for_leader_epoch", "OffsetForLeaderTopic", topic=topic, partitions=[wanted])
    request = make("OffsetForLeaderEpoch", topics=[named])
    request.replica_id = 2 if "follower" in case or "replica" in case else -2
    return request


def _add_partitions(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    world.begin_transaction()
    module = "add_partitions_to_txn"
    named = item(module, "AddPartitionsToTxnTopic", name=topic, partitions=[0])
    request = make("AddPartitionsToTxn")
    request.v3_and_below_transactional_id = world.transactional_id
    request.v3_and_below_producer_id, request.v3_and_below_producer_epoch = world.producer
    request.v3_and_below_topics = [named]
    one = item(module, "AddPartitionsToTxnTransaction", transactional_id=world.transactional_id)
    one.producer_id, one.producer_epoch = world.producer
    one.verify_only, one.topics = "verify" in case, [named]
    request.transactions = [one]
    return _only(request, version, old="v3_and_below_topics", new="transactions", since=4)


def _add_offsets(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    world.begin_transaction()
    request = make("AddOffsetsToTxn", transactional_id=world.transactional_id, group_id=world.group)
    request.producer_id, request.producer_epoch = world.producer
    return request


def _end_txn(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    world.begin_transaction()
    request = make("EndTxn", transactional_id=world.transactional_id, committed=True)
    request.producer_id, request.producer_epoch = world.producer
    return request


def _write_markers(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    named = item("write_txn_markers", "WritableTxnMarkerTopic", name=topic, partition_indexes=[0])
    marker = item("write_txn_markers", "WritableTxnMarker", producer_id=4711, producer_epoch=0)
    marker.topics = [named]
    return make("WriteTxnMarkers", markers=[marker])


def _txn_offset_commit(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    world.begin_transaction()
    adding = make("AddOffsetsToTxn", transactional_id=world.transactional_id, group_id=world.group)
    adding.producer_id, adding.producer_epoch = world.producer
    world.admin.ask(adding, 3)
    module = "txn_offset_commit"
    data = item(module, "TxnOffsetCommitRequestPartition", partition_index=0, committed_offset=0)
    data.committed_metadata = ""
    named = item(module, "TxnOffsetCommitRequestTopic", name=topic, partitions=[data])
    request = make("TxnOffsetCommit", transactional_id=world.transactional_id, group_id=world.group)
    request.producer_id, request.producer_epoch = world.producer
    request.generation_id, request.topics = -1, [named]
    return request


_ANY_ACL = {"operation": 1, "permission_type": 1, "pattern_type_filter": 1, "resource_type_filter": 1}


def _describe_acls(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    filters = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    return make("DescribeAcls", **_ANY_ACL, **filters)


def _create_acls(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    creation = item("create_acls", "AclCreation", resource_type=2, resource_name=f"x-{topic}")
    creation.principal, creation.host = "User:nobody", "*"
    creation.operation = creation.permission_type = 3
    return make("CreateAcls", creations=[creation])


def _delete_acls(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    wanted = item("delete_acls", "DeleteAclsFilter", **_ANY_ACL, resource_name_filter=f"x-{topic}")
    wanted.principal_filter = wanted.host_filter = None
    return make("DeleteAcls", filters=[wanted])


def _config_resource(case: str, world: World, topic: str) -> tuple[int, str]:
    for words, kind, name in (
        ("broker logger", 8, "1"),
        ("broker", 4, "1"),
        ("client metrics", 16, f"cm-{topic}"),
        ("group", 32, world.group),
    ):
        if words in case:
            return kind, name
    return 2, topic


def _describe_configs(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    kind, name = _config_resource(case, world, topic)
    wanted = item("describe_configs", "DescribeConfigsResource", resource_type=kind, resource_name=name)
    wanted.configuration_keys = None
    return make("DescribeConfigs", resources=[wanted])


_CONFIGS = {
    2: ("retention.ms", "3600000"),
    4: ("log.cleaner.threads", "1"),
    8: ("kafka.server", "INFO"),
    16: ("interval.ms", "60000"),
    32: ("consumer.session.timeout.ms", "45000"),
}


def _alter_configs(api: str) -> Form:
    def form(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
        kind, name = _config_resource(case, world, topic)
        key, value = _CONFIGS[kind]
        module = "alter_configs" if api == "AlterConfigs" else "incremental_alter_configs"
        config_class = "AlterableConfig"
        config = item(module, config_class, name=key, value=value)
        resource = item(module, "AlterConfigsResource", resource_type=kind, resource_name=name)
        resource.configs = [config]
        return make(api, resources=[resource])

    return form


def _create_partitions(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    wanted = item("create_partitions", "CreatePartitionsTopic", name=topic, count=2, assignments=None)
    return make("CreatePartitions", topics=[wanted], timeout_ms=5000)


def _owner(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    request = make("CreateDelegationToken", max_lifetime_ms=-1)
    request.owner_principal_type = request.owner_principal_name = ""
    if "for User:" in case:
        kind, _, name = case.partition("for ")[2].split()[0].rstrip(",").partition(":")
        request.owner_principal_type, request.owner_principal_name = kind, name
    return request


def _token(api: str) -> Form:
    def form(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
        secret = b"unknown"
        if "another" in case:
            answer = world.admin.ask(make("CreateDelegationToken", max_lifetime_ms=-1), 2)
            assert not answer.error_code, answer
            secret = bytes(answer.hmac)
        return make(api, hmac=secret)

    return form


def _describe_tokens(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    request = make("DescribeDelegationToken", owners=None)
    if "owner User:" in case:
        owner = item("describe_delegation_token", "DescribeDelegationTokenOwner", principal_type="User")
        owner.principal_name = case.partition("owner User:")[2].split()[0].rstrip(",")
        request.owners = [owner]
    return request


def _delete_groups(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    if "missing" not in case and "not exist" not in case:
        world.commit_offset()
    return make("DeleteGroups", groups_names=[world.group])


def _describe_groups(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    if "missing" not in case and "not exist" not in case:
        world.commit_offset()
    return make("DescribeGroups", groups=[world.group])


def _offset_delete(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    world.commit_offset()
    wanted = item("offset_delete", "OffsetDeleteRequestPartition", partition_index=0)
    named = item("offset_delete", "OffsetDeleteRequestTopic", name=topic, partitions=[wanted])
    return make("OffsetDelete", group_id=world.group, topics=[named])


def _alter_quotas(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    entity = item("alter_client_quotas", "EntityData", entity_type="client-id", entity_name="a")
    operation = item("alter_client_quotas", "OpData", key="producer_byte_rate", value=1e6)
    entry = item("alter_client_quotas", "EntryData", entity=[entity], ops=[operation])
    return make("AlterClientQuotas", entries=[entry])


def _describe_scram(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    name = item("describe_user_scram_credentials", "UserName", name="alice")
    return make("DescribeUserScramCredentials", users=None if "null" in case or "all" in case else [name])


def _alter_scram(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    setting = item("alter_user_scram_credentials", "ScramCredentialUpsertion", name=f"s-{topic}", mechanism=1)
    setting.iterations, setting.salt, setting.salted_password = 4096, b"salt", bytes(32)
    return make("AlterUserScramCredentials", upsertions=[setting])


def _describe_cluster(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    return make("DescribeCluster", endpoint_type=2 if "controller" in case else 1)


def _describe_producers(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    named = item("describe_producers", "TopicRequest", name=topic, partition_indexes=[0])
    return make("DescribeProducers", topics=[named])


def _describe_transactions(case: str, version: int, world: World, topic: str, _: bytes | None) -> Any:
    world.begin_transaction(with_partition="ongoing" in case)
    return make("DescribeTransactions", transactional_ids=[world.transactional_id])


def _list_transactions(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    world.begin_transaction()
    return make("ListTransactions", duration_filter=-1)


def _heartbeat_848(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    request = make("ConsumerGroupHeartbeat", group_id=world.group, member_epoch=0)
    request.member_id = format_uuid(struct.pack(">QQ", 0x1122334455667788, 1)) if version >= 1 else ""
    request.rebalance_timeout_ms, request.topic_partitions = 10000, []
    if "regex" in case:
        request.subscribed_topic_regex = f"{topic}.*"
    else:
        request.subscribed_topic_names = [topic]
    return request


def _describe_848(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    joining = _heartbeat_848("join", 1, world, f"later-{topic}", None)
    answer = world.admin.ask(joining, 1)
    assert not answer.error_code, answer
    return make("ConsumerGroupDescribe", group_ids=[world.group])


def _describe_topics(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    return make(
        "DescribeTopicPartitions", topics=[item("describe_topic_partitions", "TopicRequest", name=topic)]
    )


def _plain(api: str, **values: Any) -> Form:
    return lambda case, version, world, topic, topic_id: make(api, **values)


def _api_versions(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    return make("ApiVersions", client_software_name="probe", client_software_version="1")


def _list_resources(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    return make("ListConfigResources", resource_types=[] if "all" in case else [16])


def _elect_leaders(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    wanted = item("elect_leaders", "TopicPartitions", topic=topic, partitions=[0])
    return make("ElectLeaders", topic_partitions=[wanted], timeout_ms=5000)


def _alter_reassignments(case: str, version: int, world: World, topic: str, _: bytes | None) -> Any:
    module = "alter_partition_reassignments"
    wanted = item(module, "ReassignablePartition", partition_index=0, replicas=[1])
    named = item(module, "ReassignableTopic", name=topic, partitions=[wanted])
    return make("AlterPartitionReassignments", topics=[named], timeout_ms=5000)


def _alter_log_dirs(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    module = "alter_replica_log_dirs"
    wanted = item(module, "AlterReplicaLogDirTopic", name=topic, partitions=[0])
    return make(
        "AlterReplicaLogDirs", dirs=[item(module, "AlterReplicaLogDir", path="/none", topics=[wanted])]
    )


def _describe_quorum(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    wanted = item("describe_quorum", "PartitionDataRequest", partition_index=0)
    named = item("describe_quorum", "TopicDataRequest", topic_name="__cluster_metadata", partitions=[wanted])
    return make("DescribeQuorum", topics=[named])


def _update_features(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    update = item("update_features", "FeatureUpdateKey", feature="nope", max_version_level=1)
    return make("UpdateFeatures", feature_updates=[update], validate_only="validate" in case)


def _raft_voter(api: str) -> Form:
    def form(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
        other = "of another cluster" if "controller listener" in case else None
        return make(api, cluster_id=other, voter_id=99, voter_directory_id=bytes(16))

    return form


def _between_brokers(api: str, **values: Any) -> Form:
    """What a broker asks of the controller, from one that the cluster does not know."""
    return _plain(api, broker_id=99, **values)


def _alter_partition(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    return make("AlterPartition", broker_id=1, broker_epoch=world.broker_epoch)


def _envelope(case: str, version: int, world: World, topic: str, topic_id: bytes | None) -> Any:
    """A request that brokers forward, of somebody who cannot be read."""
    inside = framed(_create_topics("", 7, world, topic, topic_id), 7)[4:]
    return make("Envelope", request_data=inside, request_principal=b"", client_host_address=b"\x7f\0\0\1")


FORMS: dict[str, Form] = {
    "AlterPartition": _alter_partition,
    "BrokerRegistration": _between_brokers(
        "BrokerRegistration", cluster_id="of another cluster", incarnation_id=bytes(16)
    ),
    "BrokerHeartbeat": _between_brokers("BrokerHeartbeat", broker_epoch=1),
    "AllocateProducerIds": _between_brokers("AllocateProducerIds", broker_epoch=1),
    "Envelope": _envelope,
    "UpdateFeatures": _update_features,
    "AddRaftVoter": _raft_voter("AddRaftVoter"),
    "RemoveRaftVoter": _raft_voter("RemoveRaftVoter"),
    "Produce": _produce,
    "Fetch": _fetch,
    "ListOffsets": _list_offsets,
    "Metadata": _metadata,
    "OffsetCommit": offset_commit,
    "OffsetFetch": _offset_fetch,
    "FindCoordinator": _find_coordinator,
    "JoinGroup": _join_group,
    "Heartbeat": _member("Heartbeat"),
    "LeaveGroup": _member("LeaveGroup"),
    "SyncGroup": _member("SyncGroup"),
    "DescribeGroups": _describe_groups,
    "ListGroups": _plain("ListGroups"),
    "SaslHandshake": _plain("SaslHandshake", mechanism="PLAIN"),
    "SaslAuthenticate": _plain("SaslAuthenticate", auth_bytes=b"\0a\0b"),
    "ApiVersions": _api_versions,
    "CreateTopics": _create_topics,
    "DeleteTopics": _delete_topics,
    "DeleteRecords": _delete_records,
    "InitProducerId": _init_producer_id,
    "OffsetForLeaderEpoch": _offset_for_leader_epoch,
    "AddPartitionsToTxn": _add_partitions,
    "AddOffsetsToTxn": _add_offsets,
    "EndTxn": _end_txn,
    "WriteTxnMarkers": _write_markers,
    "TxnOffsetCommit": _txn_offset_commit,
    "DescribeAcls": _describe_acls,
    "CreateAcls": _create_acls,
    "DeleteAcls": _delete_acls,
    "DescribeConfigs": _describe_configs,
    "AlterConfigs": _alter_configs("AlterConfigs"),
    "IncrementalAlterConfigs": _alter_configs("IncrementalAlterConfigs"),
    "AlterReplicaLogDirs": _alter_log_dirs,
    "DescribeLogDirs": _plain("DescribeLogDirs", topics=None),
    "CreatePartitions": _create_partitions,
    "CreateDelegationToken": _owner,
    "RenewDelegationToken": _token("RenewDelegationToken"),
    "ExpireDelegationToken": _token("ExpireDelegationToken"),
    "DescribeDelegationToken": _describe_tokens,
    "DeleteGroups": _delete_groups,
    "ElectLeaders": _elect_leaders,
    "AlterPartitionReassignments": _alter_reassignments,
    "ListPartitionReassignments": _plain("ListPartitionReassignments", topics=None, timeout_ms=5000),
    "DescribeQuorum": _describe_quorum,
    "UnregisterBroker": _plain("UnregisterBroker", broker_id=99),
    "OffsetDelete": _offset_delete,
    "DescribeClientQuotas": _plain("DescribeClientQuotas"),
    "AlterClientQuotas": _alter_quotas,
    "DescribeUserScramCredentials": _describe_scram,
    "AlterUserScramCredentials": _alter_scram,
    "DescribeCluster": _describe_cluster,
    "DescribeProducers": _describe_producers,
    "DescribeTransactions": _describe_transactions,
    "ListTransactions": _list_transactions,
    "ConsumerGroupHeartbeat": _heartbeat_848,
    "ConsumerGroupDescribe": _describe_848,
    "GetTelemetrySubscriptions": _plain("GetTelemetrySubscriptions"),
    "PushTelemetry": _plain("PushTelemetry"),
    "ListConfigResources": _list_resources,
    "DescribeTopicPartitions": _describe_topics,
}


def request_for(api: str, version: int, case: str, world: World) -> Any:
    """The request that these words stand for; whatever it needs to exist is made."""
    form = FORMS.get(api)
    if form is None:
        raise Unreadable(f"{api} is not served here")
    gone = is_gone(case)
    topic = world.missing if gone else world.topic
    topic_id = world.unknown_id if gone else world.topic_ids[world.topic]
    request = form(case, version, world, topic, topic_id)
    known = declaration(type(request)).versions
    if version not in known:
        raise Unreadable(f"{api} has no version {version}: there are {known.first} to {known.last}")
    return request


def is_gone(case: str) -> bool:
    """Whether a case is about something that is not there."""
    words = ("missing", "not exist", "nonexistent", "non-existent", "no such", "unknown topic", "unknown id")
    return any(each in case for each in words)
