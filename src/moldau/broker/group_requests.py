"""How handlers reach the group coordinator: one group at a time, or many groups spread over shards.

Law: a group is the business of one shard; a request that names many is cut into one piece a shard,
and its answers are put together again in the order of the request.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from moldau.broker.context import RequestContext
from moldau.coordinators.groups.decision import Client
from moldau.coordinators.groups.shard import GroupShard
from moldau.coordinators.machine import Step, Token

#: One method of the shard, as ``GroupShard.join``.
Method = Callable[[GroupShard, Any, int, Client, Token, int], Step]


def client_of(context: RequestContext) -> Client:
    return Client(context.client_id or "", f"/{context.connection.host}")


def ask(context: RequestContext, group_id: str, method: Method, request: Any) -> Any:
    """The shard's reply to a request about one group, now or as an awaitable."""
    client, version = client_of(context), context.api_version

    def decide(shard: GroupShard, token: Token, now_ms: int) -> Step:
        return method(shard, request, version, client, token, now_ms)

    return context.services.groups.ask(group_id, decide)


async def ask_each(
    context: RequestContext, group_ids: Sequence[str], method: Method, piece: Callable[[str], Any]
) -> list[Any]:
    """One reply, or the exception it ended with, for each group; ``piece`` is the request for one of them."""

    async def one(group_id: str) -> Any:
        reply = ask(context, group_id, method, piece(group_id))
        return await reply if isinstance(reply, Awaitable) else reply

    return await asyncio.gather(*(one(group_id) for group_id in group_ids), return_exceptions=True)
