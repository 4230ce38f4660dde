"""How handlers reach the group coordinator: one group at a time, or many groups spread over shards.

Invariant: a group is the business of one shard; a request that names many is cut into one piece a shard,
and its answers are put together again in the order of the request.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from moldau.broker.bounds.turns import Turn
from moldau.broker.context import RequestContext
from moldau.coordinators.groups.operation import Client
from moldau.coordinators.groups.shard import GroupShard
from moldau.coordinators.shard import CoordinatorResult, Token
from moldau.protocol.errors import KafkaError

#: One method of the shard, as ``GroupShard.join``.
Method = Callable[[GroupShard, Any, int, Client, Token, int], CoordinatorResult]


def client_of(context: RequestContext) -> Client:
    authorization = context.services.authorization
    may_describe = None if authorization is None else authorization.describes(context.connection)
    return Client(context.client_id or "", f"/{context.connection.host}", may_describe)


def ask(
    context: RequestContext,
    group_id: str,
    method: Method,
    request: Any,
    go_on: Callable[["asyncio.Future[Any]"], Any] = asyncio.Future.result,
) -> Any:
    """The shard's reply to a request about one group, now or as a ``Parked``."""
    return context.services.groups.ask(group_id, _decide(context, method, request), go_on)


def request_of(context: RequestContext, group_id: str, method: Method, request: Any) -> "asyncio.Future[Any]":
    """The same for handlers that are coroutines anyway."""
    return context.services.groups.request(group_id, _decide(context, method, request))


async def ask_each(
    context: RequestContext, group_ids: Sequence[str], method: Method, piece: Callable[[str], Any]
) -> list[Any]:
    """One reply, or the error it ended with, for each group; ``piece`` is the request for one of them."""
    replies: list[Any] = []
    turn = Turn()
    for group_id in group_ids:
        await turn.give_way()
        try:
            replies.append(request_of(context, group_id, method, piece(group_id)))
        except KafkaError as error:
            replies.append(error.without_stack())
    # All are asked by now, and nearly always all have answered.
    for place, reply in enumerate(replies):
        await turn.give_way()
        if not isinstance(reply, KafkaError):
            try:
                replies[place] = await reply
            except KafkaError as error:
                replies[place] = error.without_stack()
    return replies


def _decide(
    context: RequestContext, method: Method, request: Any
) -> Callable[[GroupShard, Token, int], CoordinatorResult]:
    client, version = client_of(context), context.api_version
    return lambda shard, token, now_ms: method(shard, request, version, client, token, now_ms)
