"""How a foreign-key join is laid out: subscriptions go to the other table's tasks, responses come back.

Invariant: names and numbers are Kafka's.
"""

from functools import partial
from typing import Any

from moldau.streams.dsl.functions import Function
from moldau.streams.dsl.graph import Graph, GraphNode, Repartition, Spec
from moldau.streams.dsl.options import Materialized
from moldau.streams.dsl.stores import table_store
from moldau.streams.dsl.streams import write_table_source
from moldau.streams.dsl.suppliers import SourceSupplier
from moldau.streams.dsl.tables import KTable
from moldau.streams.engine.foreign_keys import (
    AnswerSubscription,
    ReceiveSubscription,
    ResolveResponse,
    Subscribe,
    TellSubscribers,
)
from moldau.streams.engine.stores.buffers import SubscriptionStore
from moldau.streams.engine.tables import TableSource
from moldau.streams.topology.topology import RepartitionTopic, StoreSpec

_REGISTRATION = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-"
_PROCESSOR = "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"
_RESPONSE = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-"
_RESOLVER = "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"

Table = KTable[Any, Any]


class _Names:
    """The names of a join; the order in which they are made is the order of their numbers."""

    def __init__(self, graph: Graph, named: str | None) -> None:
        def name(prefix: str, suffix: str) -> str:
            return graph.name_or_new(named, prefix, suffix)

        self.subscription_topic = name(_REGISTRATION, "-subscription-registration") + "-topic"
        self.subscribe = name(_REGISTRATION, "-subscription-registration-processor")
        self.subscription_sink = name("KTABLE-SINK-", "-subscription-registration-sink")
        self.subscription_source = name("KTABLE-SOURCE-", "-subscription-registration-source")
        self.store = name("KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-", "-subscription-store")
        self.receive = name(_PROCESSOR, "-subscription-receive")
        self.answer = name(_PROCESSOR, "-subscription-join-foreign")
        self.tell = name(_PROCESSOR, "-foreign-join-subscription")
        self.response_topic = name(_RESPONSE, "-subscription-response") + "-topic"
        self.response_sink = name("KTABLE-SINK-", "-subscription-response-sink")
        self.response_source = name("KTABLE-SOURCE-", "-subscription-response-source")
        self.resolve = name(_RESOLVER, "-subscription-response-resolver")
        self.result = name("KTABLE-FK-JOIN-OUTPUT-", "-result")


def join_by_foreign_key(
    left: Table,
    right: Table,
    foreign_key: Function,
    joiner: Function,
    materialized: Materialized | None,
    named: str | None,
    *,
    is_left: bool,
) -> Table:
    graph = left.graph
    right.supplier.enable_old_values(force=True)
    left.supplier.enable_old_values(force=True)
    names = _Names(graph, named)
    subscribe = Spec(
        Subscribe,
        foreign_key,
        graph.key_bytes(right.key_serde),
        is_left_join=is_left,
        has_versioned_input=left.supplier.is_versioned,
    )
    sent = graph.add_processor([left.node], names.subscribe, subscribe)
    answers = _other_side(graph, names, sent, left, right)
    topic = RepartitionTopic(names.response_topic)
    responses = Repartition(topic, names.response_sink, names.response_source, left.key_serde, None)
    returned = graph.add(answers, GraphNode(names.response_source, responses.write))
    graph.copartition(left.sources | {names.response_source})
    resolved = graph.add_processor(
        [returned],
        names.resolve,
        Spec(ResolveResponse, left.supplier.getter(), joiner, is_left_join=is_left),
        left.supplier.store_names(),
    )
    return _result(graph, names.result, resolved, left, materialized or Materialized())


def _other_side(graph: Graph, names: _Names, sent: GraphNode, left: Table, right: Table) -> list[GraphNode]:
    """What happens at the right table: subscriptions are kept and answered, changes go to subscribers."""
    topic = RepartitionTopic(names.subscription_topic)
    subscriptions = Repartition(
        topic, names.subscription_sink, names.subscription_source, right.key_serde, None
    )
    make = partial(
        SubscriptionStore, names.store, graph.key_bytes(right.key_serde), graph.key_bytes(left.key_serde)
    )
    store = StoreSpec(names.store, make, key_serde=right.key_serde)
    arrived = graph.add([sent], GraphNode(names.subscription_source, subscriptions.write))
    received = graph.add_processor([arrived], names.receive, Spec(ReceiveSubscription, names.store), [store])
    answer = Spec(AnswerSubscription, right.supplier.getter())
    answered = graph.add_processor([received], names.answer, answer, right.supplier.store_names())
    tell = Spec(TellSubscribers, names.store, has_versioned_input=right.supplier.is_versioned)
    told = graph.add_processor([right.node], names.tell, tell, [store])
    graph.copartition(right.sources | {names.subscription_source})
    return [answered, told]


def _result(graph: Graph, name: str, resolved: GraphNode, left: Table, options: Materialized) -> Table:
    store_name = options.store_name or graph.new_store_name("KTABLE-FK-JOIN-OUTPUT-")
    supplier = SourceSupplier(
        Spec(TableSource, store_name=None),
        partial(table_store, graph, store_name, options, left.key_serde, None),
        is_kept=options.store_name is not None,
        history_ms=options.history_ms,
    )
    node = graph.add([resolved], GraphNode(name, partial(write_table_source, name, supplier)))
    return KTable(graph, node, left.sources, supplier, left.key_serde, options.value_serde)
