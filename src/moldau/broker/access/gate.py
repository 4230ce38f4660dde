"""The gate: asks what an API declares (``asks.py``) before its handler runs, and answers what is refused.

Invariant: with an authorizer no handler runs without a declaration. A refused item has no effect, and its
answer is the same whether the resource exists or not. Without an authorizer there is no gate in the way.
"""

import copy
from collections.abc import Callable
from typing import Any, TypeAlias

from moldau.broker.access.answers import when_answered
from moldau.broker.access.asks import Ask, Each, Whole
from moldau.broker.access.authorized_operations import REFUSALS
from moldau.broker.apis import TABLE
from moldau.broker.context import RequestContext
from moldau.broker.purgatory import NO_RESPONSE
from moldau.protocol import messages
from moldau.protocol.api_keys import ApiKey
from moldau.protocol.errors import KafkaError
from moldau.security.acls import CLUSTER_NAME, ResourceType

Handler: TypeAlias = Callable[[Any, RequestContext], Any]


def guard(api_key: ApiKey, handle: Handler) -> Handler:
    """The handler of an API with the gate before it."""
    api = TABLE[api_key]
    asks: tuple[Ask, ...] = api.asks
    wholes = [ask for ask in asks if isinstance(ask, Whole)]
    lists = [ask for ask in asks if isinstance(ask, Each)]
    if not wholes and not lists:
        return handle
    fail, (_, response) = api.fail, messages.load(api_key)

    def guarded(request: Any, context: RequestContext) -> Any:
        for ask in wholes:
            _check_whole(ask, request, context)
        refused: list[_Refused] = []
        idle = False
        for items in lists:
            taken = _take_out(items, request, context)
            if taken:
                refused.append(_Refused(items, request, taken))
                idle = idle or not getattr(request, items.items)
        if not refused:
            return handle(request, context)
        merge = _Merge(request, context, refused, fail)
        # With nothing left to do, nothing is done: no topic is made and no group is asked.
        return merge.response(response()) if idle else merge.result(handle, request)

    return guarded


def _check_whole(ask: Whole, request: Any, context: RequestContext) -> None:
    name = ask.name(request, context)
    if name is None:
        return
    for operation, resource in ask.rights:
        if context.may(operation, resource, name):
            return
    raise KafkaError(REFUSALS[ask.rights[0][1]][0], ask.said)


def _take_out(ask: Each, request: Any, context: RequestContext) -> list[tuple[ResourceType, Any]]:
    items = getattr(request, ask.items)
    if not items:
        return []
    if ask.unless is not None and context.may(*ask.unless, CLUSTER_NAME, quiet=True):
        return []
    kept: list[Any] = []
    refused: list[tuple[ResourceType, Any]] = []
    for item in items:
        question = ask.question(item, context)
        if question is None or context.may(*question):
            kept.append(item)
        else:
            refused.append((question[1], item))
    if refused:
        setattr(request, ask.items, kept)
    return refused


class _Refused:
    """Items of one list that were refused, as requests that hold nothing else."""

    __slots__ = ("ask", "pieces")

    def __init__(self, ask: Each, request: Any, taken: list[tuple[ResourceType, Any]]) -> None:
        self.ask = ask
        self.pieces: list[tuple[KafkaError, Any]] = []
        for resource in dict.fromkeys(resource for resource, _ in taken):
            piece = copy.copy(request)
            setattr(piece, ask.items, [item for kind, item in taken if kind is resource])
            code, text = REFUSALS[resource]
            self.pieces.append((KafkaError(code, ask.said or text if ask.says else None), piece))


class _Merge:
    """Adds the refused items to whatever the handler answers, now or later."""

    __slots__ = ("context", "fail", "refused", "request")

    def __init__(
        self, request: Any, context: RequestContext, refused: list[_Refused], fail: Callable[..., Any]
    ) -> None:
        self.request = request
        self.context = context
        self.refused = refused
        self.fail = fail

    def result(self, handle: Handler, request: Any) -> Any:
        try:
            result = handle(request, self.context)
        except KafkaError as error:
            return self.response(self.fail(request, error, self.context))
        return when_answered(result, self.response, self._failed)

    def _failed(self, error: Exception) -> Any:
        if isinstance(error, KafkaError):
            return self.fail(self.request, error, self.context)
        raise error

    def response(self, response: Any) -> Any:
        for refused in self.refused:
            for error, piece in refused.pieces:
                # Without an answer to add to, as for acks=0, this is what closes the connection.
                failed = self.fail(piece, error, self.context)
                if response is None or response is NO_RESPONSE:
                    continue
                answers, added = getattr(response, refused.ask.answers), getattr(failed, refused.ask.answers)
                merged = [*added, *answers] if refused.ask.refused_first else [*answers, *added]
                setattr(response, refused.ask.answers, merged)
        return response
