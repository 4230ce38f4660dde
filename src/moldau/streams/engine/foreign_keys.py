"""Foreign-key joins of tables: rows of the left table subscribe to a row of the right one, and hear its
changes.

Invariant: a response counts only if the left row is still the one that subscribed; later ones of it are on
their way. Subscriptions and responses travel through topics of their own, as the two tables are partitioned
differently.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from moldau.streams.engine.nodes import Node, TaskContext
from moldau.streams.engine.records import Headers, KeyBytes
from moldau.streams.engine.stores.buffers import SubscriptionStore
from moldau.streams.engine.stores.store import NO_KEY_OR_VALUE, OUTDATED
from moldau.streams.engine.table_joins import Joiner, MakeGetter
from moldau.streams.engine.tables import Getter


class Instruction(Enum):
    """What the right side shall do with a subscription, and whether it shall answer."""

    DELETE_SILENTLY = 0
    DELETE_AND_ANSWER = 1
    ANSWER_ALWAYS = 2
    ANSWER_IF_FOUND = 3


class Subscription(NamedTuple):
    primary_key: Any
    #: The left row that subscribes; Kafka sends a hash of it.
    left_value: Any
    instruction: Instruction


class Response(NamedTuple):
    left_value: Any
    right_value: Any


class Subscribe(Node):
    """Changes of the left table become subscriptions, sent to the foreign key."""

    __slots__ = ("foreign_key", "has_versioned_input", "is_left_join", "key_bytes")

    def __init__(
        self,
        foreign_key: Callable[[Any, Any], Any],
        key_bytes: KeyBytes,
        *,
        is_left_join: bool,
        has_versioned_input: bool = False,
    ) -> None:
        super().__init__()
        self.foreign_key = foreign_key
        self.key_bytes = key_bytes
        self.is_left_join = is_left_join
        self.has_versioned_input = has_versioned_input

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if self.has_versioned_input and not value.is_latest:
            self.dropped(OUTDATED)
            return
        old = None if value.old is None else self.foreign_key(key, value.old)
        new = None if value.new is None else self.foreign_key(key, value.new)
        for foreign_key, instruction in self._instructions(value, old, new):
            subscription = Subscription(key, value.new, instruction)
            self.forward(foreign_key, subscription, timestamp, headers)

    def _instructions(self, change: Any, old: Any, new: Any) -> list[tuple[Any, Instruction]]:
        moved = old is not None and (new is None or self.key_bytes(old) != self.key_bytes(new))
        if self.is_left_join:
            if change.old is None and change.new is None:
                return []
            answer = (new, Instruction.ANSWER_ALWAYS)
            return [(old, Instruction.DELETE_SILENTLY), answer] if moved else [answer]
        if new is None:
            if change.new is not None:
                self.dropped()
            return [(old, Instruction.DELETE_AND_ANSWER)] if old is not None else []
        if moved:
            return [(old, Instruction.DELETE_SILENTLY), (new, Instruction.ANSWER_ALWAYS)]
        return [(new, Instruction.ANSWER_IF_FOUND)]


class ReceiveSubscription(Node):
    """Keeps subscriptions by foreign key."""

    __slots__ = ("store", "store_name")

    def __init__(self, store_name: str) -> None:
        super().__init__()
        self.store_name = store_name
        self.store: SubscriptionStore

    def start(self, context: TaskContext) -> None:
        super().start(context)
        self.store = context.stores[self.store_name]  # type: ignore[assignment]

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        subscription: Subscription = value
        if key is None:
            if subscription.instruction is not Instruction.ANSWER_ALWAYS:
                self.dropped()
                return
        elif subscription.instruction in (Instruction.DELETE_AND_ANSWER, Instruction.DELETE_SILENTLY):
            self.store.delete(key, subscription.primary_key)
        else:
            self.store.put(key, subscription.primary_key, subscription.left_value)
        self.forward(key, subscription, timestamp, headers)


class AnswerSubscription(Node):
    """Answers a new subscription with the row of the right table, as its instruction says."""

    __slots__ = ("getter", "make_getter")

    def __init__(self, make_getter: MakeGetter) -> None:
        super().__init__()
        self.make_getter = make_getter
        self.getter: Getter

    def start(self, context: TaskContext) -> None:
        super().start(context)
        self.getter = self.make_getter(context.stores)

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        subscription: Subscription = value
        row = None if key is None else self.getter.get(key)
        if row is not None and row.timestamp > timestamp:
            timestamp = row.timestamp
        instruction = subscription.instruction
        if instruction is Instruction.DELETE_SILENTLY:
            return
        if instruction is Instruction.DELETE_AND_ANSWER:
            right_value = None
        elif row is not None:
            right_value = row.value
        elif instruction is Instruction.ANSWER_ALWAYS:
            right_value = None
        else:
            return
        response = Response(subscription.left_value, right_value)
        self.forward(subscription.primary_key, response, timestamp, headers)


class TellSubscribers(Node):
    """A changed row of the right table goes to all that subscribed to it."""

    __slots__ = ("has_versioned_input", "store", "store_name")

    def __init__(self, store_name: str, *, has_versioned_input: bool = False) -> None:
        super().__init__()
        self.store_name = store_name
        self.has_versioned_input = has_versioned_input
        self.store: SubscriptionStore

    def start(self, context: TaskContext) -> None:
        super().start(context)
        self.store = context.stores[self.store_name]  # type: ignore[assignment]

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        if key is None or (self.has_versioned_input and not value.is_latest):
            self.dropped(NO_KEY_OR_VALUE if key is None else OUTDATED)
            return
        for primary_key, left_value in self.store.subscribers(key):
            self.forward(primary_key, Response(left_value, value.new), timestamp, headers)


class ResolveResponse(Node):
    """Joins a response with the left row, if that is still the one that asked."""

    __slots__ = ("getter", "is_left_join", "joiner", "make_getter")

    def __init__(self, make_getter: MakeGetter, joiner: Joiner, *, is_left_join: bool) -> None:
        super().__init__()
        self.make_getter = make_getter
        self.joiner = joiner
        self.is_left_join = is_left_join
        self.getter: Getter

    def start(self, context: TaskContext) -> None:
        super().start(context)
        self.getter = self.make_getter(context.stores)

    def process(self, key: Any, value: Any, timestamp: int, headers: Headers) -> None:
        response: Response = value
        row = self.getter.get(key)
        left_value = row.value if row is not None else None
        if left_value != response.left_value:
            self.dropped(OUTDATED)
            return
        if response.right_value is None and (not self.is_left_join or left_value is None):
            joined = None
        else:
            joined = self.joiner(key, left_value, response.right_value)
        self.forward(key, joined, timestamp, headers)
