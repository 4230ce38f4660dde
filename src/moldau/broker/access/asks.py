"""What an API asks of an authorizer, declared in the API's own file and in one line.

    ASKS = (whole(READ, GROUP, "group_id"), every(READ, TOPIC, "topics", refused_first=True))

``whole`` refuses the request as a whole. ``every`` takes the items that are refused out of the request, lets
the handler answer the rest, and adds the refused ones, as the API's ``fail`` words them. ``within`` names
what the handler asks itself, by ``context.may``, because its answer depends on it in a way of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from moldau.broker.context import RequestContext
from moldau.security.acls import CLUSTER_NAME, Operation, ResourceType

#: (operation, type of resource, its name)
Question: TypeAlias = tuple[Operation, ResourceType, str]


@dataclass(frozen=True, slots=True)
class Whole:
    """One of these rights is needed for anything at all; none where the request has no such name."""

    rights: tuple[tuple[Operation, ResourceType], ...]
    name: Callable[[Any, RequestContext], str | None]
    said: str | None = None


@dataclass(frozen=True, slots=True)
class Each:
    """A right for every item of a list in the request; ``unless`` is one that covers them all."""

    question: Callable[[Any, RequestContext], Question | None]
    items: str
    answers: str
    unless: tuple[Operation, ResourceType] | None = None
    refused_first: bool = False
    #: Whether an item's answer says what was refused, and how, where it is not in the usual words.
    says: bool = False
    said: str | None = None


@dataclass(frozen=True, slots=True)
class Within:
    """What the handler asks for itself."""

    rights: tuple[tuple[Operation, ResourceType], ...]


Ask: TypeAlias = Whole | Each | Within
#: For APIs that everybody may use.
NOTHING: tuple[Ask, ...] = ()


def whole(operation: Operation, resource: ResourceType, field: str, *, said: str | None = None) -> Whole:
    """The resource's name is that field of the request; without one nothing is asked."""
    return Whole(((operation, resource),), lambda request, context: getattr(request, field), said)


def cluster(*operations: Operation, said: str | None = None) -> Whole:
    """One of these operations on the cluster."""
    rights = tuple((operation, ResourceType.CLUSTER) for operation in operations)
    return Whole(rights, lambda request, context: CLUSTER_NAME, said)


def every(
    operation: Operation,
    resource: ResourceType,
    items: str,
    *,
    name: str | None = "name",
    answers: str | None = None,
    by_id_from: int | None = None,
    unless: tuple[Operation, ResourceType] | None = None,
    refused_first: bool = False,
    says: bool = False,
    said: str | None = None,
) -> Each:
    """``name`` is the field of an item with the resource's name, None where the item itself is the name.

    ``by_id_from`` is the version from which topics go by id; a topic that nobody knows is not asked about.
    """

    def question(item: Any, context: RequestContext) -> Question | None:
        if by_id_from is not None and context.api_version >= by_id_from:
            topic = context.services.image.topics_by_id.get(item.topic_id)
            return None if topic is None else (operation, resource, topic.name)
        return operation, resource, item if name is None else getattr(item, name)

    return Each(question, items, answers or items, unless, refused_first, says, said)


def every_of(
    question: Callable[[Any, RequestContext], Question | None],
    items: str,
    *,
    answers: str | None = None,
    refused_first: bool = False,
    says: bool = False,
) -> Each:
    """For items that are of several types."""
    return Each(question, items, answers or items, None, refused_first, says)


def within(*rights: tuple[Operation, ResourceType]) -> Within:
    return Within(rights)
