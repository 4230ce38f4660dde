"""The table of v3's routes. A ``-`` in the place of a name stands for all of them, and comes first."""

from moldau.rest.api.call import answered
from moldau.rest.api.v3 import acls, clusters, configs, groups, records, topics
from moldau.web.routes import Handler, Parameter, Route, flag, text

_JSON = ("application/json",)
_CLUSTER = "/v3/clusters/{cluster}"
_BROKER = f"{_CLUSTER}/brokers/{{broker:integer}}"
_TOPIC = f"{_CLUSTER}/topics/{{topic}}"
_PARTITION = f"{_TOPIC}/partitions/{{partition:integer}}"
_GROUP = f"{_CLUSTER}/consumer-groups/{{group}}"
_ASSIGNMENTS = f"{_GROUP}/consumers/{{consumer}}/assignments"
_LAGS = f"{_GROUP}/lags"
_OPERATIONS = flag("include_authorized_operations")
_ACL_QUERY = tuple(text(name) for name in acls.FIELDS)


def _route(
    method: str,
    path: str,
    handler: Handler,
    summary: str,
    *,
    query: tuple[Parameter, ...] = (),
    body: str | None = None,
    answer: str | None = None,
    status: int = 200,
    has_answer: bool = True,
) -> Route:
    body_types = (*_JSON, "application/octet-stream") if body else ()
    handle = answered(handler, v2=False)
    return Route(method, path, handle, summary, query, body, answer, status, _JSON, body_types, has_answer)


def _get(path: str, handler: Handler, summary: str, *query: Parameter) -> Route:
    return _route("GET", path, handler, summary, query=query, answer="Resource")


def _list(path: str, handler: Handler, summary: str, *query: Parameter) -> Route:
    return _route("GET", path, handler, summary, query=query, answer="ResourceList")


def _configs(
    path: str, what: str, handlers: tuple[Handler, Handler, Handler, Handler, Handler]
) -> list[Route]:
    """List, get, set and reset, and change several at once."""
    listed, got, put, reset, altered = handlers
    one = f"{path}/{{name}}"
    return [
        _list(path, listed, f"List the configs of {what}"),
        _get(one, got, f"A config of {what}"),
        _route("PUT", one, put, f"Set a config of {what}", body="UpdateConfig", status=204),
        _route("DELETE", one, reset, f"Reset a config of {what}", status=204),
        _route(
            "POST", f"{path}:alter", altered, f"Change configs of {what}", body="AlterConfigs", status=204
        ),
    ]


ROUTES = (
    _list("/v3/clusters", clusters.list_clusters, "List clusters"),
    _get(_CLUSTER, clusters.get_cluster, "A cluster"),
    _list(f"{_CLUSTER}/brokers", clusters.list_brokers, "List brokers"),
    _list(f"{_CLUSTER}/brokers/-/configs", configs.list_all_brokers, "The dynamic configs of all brokers"),
    _get(_BROKER, clusters.get_broker, "A broker"),
    _list(f"{_BROKER}/partition-replicas", topics.list_broker_replicas, "The replicas of a broker"),
    *_configs(
        f"{_BROKER}/configs",
        "a broker",
        (
            configs.list_broker,
            configs.get_broker,
            configs.set_broker,
            configs.reset_broker,
            configs.alter_broker,
        ),
    ),
    *_configs(
        f"{_CLUSTER}/broker-configs",
        "the cluster",
        (
            configs.list_cluster,
            configs.get_cluster,
            configs.set_cluster,
            configs.reset_cluster,
            configs.alter_cluster,
        ),
    ),
    _list(f"{_CLUSTER}/topics", topics.list_topics, "List topics", _OPERATIONS),
    _route(
        "POST",
        f"{_CLUSTER}/topics",
        topics.create_topic,
        "Create a topic",
        body="CreateTopic",
        answer="Resource",
        status=201,
    ),
    _list(f"{_CLUSTER}/topics/-/configs", configs.list_all_topics, "The configs of all topics"),
    _list(
        f"{_CLUSTER}/topics/-/partitions/-/reassignment", topics.list_all_reassignments, "All reassignments"
    ),
    _list(
        f"{_CLUSTER}/topics/-/partitions/-/reassignments", topics.list_all_reassignments, "All reassignments"
    ),
    _get(_TOPIC, topics.get_topic, "A topic", _OPERATIONS),
    _route(
        "PATCH",
        _TOPIC,
        topics.update_partition_count,
        "Add partitions",
        body="UpdatePartitionCount",
        answer="Resource",
    ),
    _route("DELETE", _TOPIC, topics.delete_topic, "Delete a topic", status=204),
    *_configs(
        f"{_TOPIC}/configs",
        "a topic",
        (
            configs.list_topic,
            configs.get_topic,
            configs.set_topic,
            configs.reset_topic,
            configs.alter_topic,
        ),
    ),
    _list(f"{_TOPIC}/default-configs", configs.list_topic_defaults, "Configs that a topic would have"),
    _list(f"{_TOPIC}/partitions", topics.list_partitions, "List partitions"),
    _list(f"{_TOPIC}/partitions/-/reassignment", topics.list_topic_reassignments, "Its reassignments"),
    _list(f"{_TOPIC}/partitions/-/reassignments", topics.list_topic_reassignments, "Its reassignments"),
    _get(_PARTITION, topics.get_partition, "A partition"),
    _list(f"{_PARTITION}/replicas", topics.list_replicas, "List replicas"),
    _get(f"{_PARTITION}/replicas/{{broker:integer}}", topics.get_replica, "A replica"),
    _get(f"{_PARTITION}/reassignment", topics.get_reassignment, "The reassignment of a partition"),
    _route(
        "POST",
        f"{_PARTITION}/reassignment",
        topics.start_reassignment,
        "Move a partition to other brokers",
        body="Reassign",
        status=204,
    ),
    _route(
        "POST",
        f"{_CLUSTER}/leader-elections",
        topics.elect,
        "Elect leaders",
        body="ElectLeaders",
        answer="ResourceList",
    ),
    _route("POST", f"{_TOPIC}/records", records.produce, "Produce records", body="Record"),
    _list(f"{_CLUSTER}/consumer-groups", groups.list_groups, "List consumer groups"),
    _get(_GROUP, groups.get_group, "A consumer group"),
    _list(f"{_GROUP}/consumers", groups.list_consumers, "The consumers of a group"),
    _get(f"{_GROUP}/consumers/{{consumer}}", groups.get_consumer, "A consumer"),
    _list(_ASSIGNMENTS, groups.list_assignments, "What a consumer reads"),
    _get(
        f"{_ASSIGNMENTS}/{{topic}}/partitions/{{partition:integer}}", groups.get_assignment, "An assignment"
    ),
    _get(f"{_GROUP}/lag-summary", groups.get_lag_summary, "How far a group lags"),
    _list(_LAGS, groups.list_lags, "How far a group lags in each partition"),
    _get(f"{_LAGS}/{{topic}}/partitions/{{partition:integer}}", groups.get_lag, "Its lag in a partition"),
    _list(f"{_CLUSTER}/acls", acls.search, "Find ACLs", *_ACL_QUERY),
    _route(
        "POST", f"{_CLUSTER}/acls", acls.create, "Create an ACL", body="Acl", status=201, has_answer=False
    ),
    _route(
        "POST",
        f"{_CLUSTER}/acls:batch",
        acls.create_batch,
        "Create ACLs",
        body="Acls",
        status=201,
        has_answer=False,
    ),
    _route("DELETE", f"{_CLUSTER}/acls", acls.delete, "Delete ACLs", query=_ACL_QUERY),
)
