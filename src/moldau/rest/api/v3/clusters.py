"""v3: clusters and brokers."""

from typing import Any

from moldau.client.transport.cluster import Broker
from moldau.rest import problems
from moldau.rest.api.call import RestCall
from moldau.rest.api.v3.resources import cluster_of, collection, related, resource


async def list_clusters(call: RestCall) -> Any:
    session = await call.session()
    call.parameters["cluster"] = session.cluster.cluster_id or ""
    return {
        "kind": "KafkaClusterList",
        "metadata": {"self": call.link("v3", "clusters"), "next": None},
        "data": [await _cluster(call)],
    }


async def get_cluster(call: RestCall) -> Any:
    await cluster_of(call)
    return await _cluster(call)


async def _cluster(call: RestCall) -> dict[str, Any]:
    session = await call.session()
    described = await session.admin.describe_cluster()
    fields: dict[str, Any] = {}
    if described.controller_id >= 0:
        fields["controller"] = related(call, "brokers", described.controller_id)
    return resource(
        call,
        "KafkaCluster",
        (),
        "",
        **fields,
        acls=related(call, "acls"),
        brokers=related(call, "brokers"),
        broker_configs=related(call, "broker-configs"),
        consumer_groups=related(call, "consumer-groups"),
        topics=related(call, "topics"),
        partition_reassignments=related(call, "topics", "-", "partitions", "-", "reassignment"),
    )


async def list_brokers(call: RestCall) -> Any:
    session, _ = await cluster_of(call)
    described = await session.admin.describe_cluster()
    brokers = sorted(described.brokers, key=lambda each: each.node_id)
    return collection(call, "KafkaBrokerList", ("brokers",), [_broker(call, each) for each in brokers])


async def get_broker(call: RestCall) -> Any:
    return _broker(call, await broker_of(call))


async def broker_of(call: RestCall) -> Broker:
    """The broker that the path names."""
    session, _ = await cluster_of(call)
    missing = problems.not_found(f"Broker {call.parameters['broker'][:20]}")
    number = call.path_number("broker", lambda: missing)
    described = await session.admin.describe_cluster()
    for each in described.brokers:
        if each.node_id == number:
            return each
    raise missing


def _broker(call: RestCall, broker: Broker) -> dict[str, Any]:
    path = ("brokers", broker.node_id)
    return resource(
        call,
        "KafkaBroker",
        path,
        f"broker={broker.node_id}",
        broker_id=broker.node_id,
        host=broker.host,
        port=broker.port,
        rack=broker.rack,
        configs=related(call, *path, "configs"),
        partition_replicas=related(call, *path, "partition-replicas"),
    )
