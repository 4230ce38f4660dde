"""``moldau kafka-delegation-tokens``: create, renew, expire and describe tokens, as Kafka's tool does."""

import asyncio
import base64
import binascii
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from moldau.cli.kafka_tools.framework.bootstrap import (
    CLUSTER_OPTIONS,
    open_admin_cluster,
    with_bootstrap_server,
)
from moldau.cli.kafka_tools.framework.exceptions import (
    ToolError,
    exception_line,
    execution_lines,
    illegal_argument,
)
from moldau.cli.kafka_tools.framework.options import Given, Option, OptionError, Options
from moldau.cli.kafka_tools.framework.tool import Console, Tool
from moldau.client.admin.access import Access, IssuedToken
from moldau.protocol.errors import KafkaError
from moldau.security.principals import Principal, parse_principal

TOOL = Tool(
    "kafka-delegation-tokens",
    "Creates, renews, expires and describes delegation tokens.",
    Options(
        *CLUSTER_OPTIONS,
        Option("create", "Create a token for the user that is logged in."),
        Option("renew", "Renew a token."),
        Option("expire", "End a token."),
        Option("describe", "Show tokens."),
        Option("owner-principal", "Whose token it is, as User:ann.", "principal"),
        Option("renewer-principal", "Who may renew it.", "principal"),
        Option("max-life-time-period", "Milliseconds until it ends for good; -1 for the broker's own.", "ms"),
        Option("renew-time-period", "Milliseconds until it ends; -1 for the broker's own.", "ms"),
        Option("expiry-time-period", "Milliseconds until it ends; -1 to end it now.", "ms"),
        Option("hmac", "The token's secret.", "hmac"),
    ),
    ("--bootstrap-server localhost:9092 --command-config ann.properties --create --max-life-time-period -1",),
)

_HEADER = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
_WIDTHS = (15, 30, 15, 15, 25, 15, 15, 15)


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        raise OptionError("This tool helps to create, renew, expire, or describe delegation tokens.")
    try:
        given = TOOL.options.parse(with_bootstrap_server(arguments, console))
        _check_options(given)
        asyncio.run(_execute(given, console))
    except (KafkaError, ToolError) as error:
        console.error(exception_line(error))
        for line in execution_lines(error):
            console.error(line)
        return 1
    return 0


def _check_options(given: Given) -> None:
    if sum(given.has(action) for action in ("create", "renew", "expire", "describe")) != 1:
        raise OptionError(
            "Command must include exactly one action: --create, --renew, --expire or --describe"
        )
    needed = {
        "create": ("max-life-time-period",),
        "renew": ("hmac", "renew-time-period"),
        "expire": ("hmac", "expiry-time-period"),
    }
    for action, names in needed.items():
        missing = [name for name in names if given.has(action) and not given.has(name)]
        if missing:
            raise OptionError(f'Missing required argument "[{missing[0]}]"')
    if not given.has("command-config"):
        raise OptionError('Missing required argument "[command-config]"')


def token_lines(tokens: Iterable[IssuedToken]) -> list[str]:
    lines = [_row(_HEADER)]
    for token, hmac in tokens:
        renewers = ",".join(map(str, token.renewers))
        dates = (token.issued_at_ms, token.expires_at_ms, token.max_at_ms)
        lines.append("")
        lines.append(
            _row(
                (
                    token.token_id,
                    base64.b64encode(hmac).decode(),
                    str(token.owner),
                    str(token.requester),
                    f"[{renewers}]",
                    *(datetime.fromtimestamp(each / 1000, UTC).strftime("%Y-%m-%dT%H:%M") for each in dates),
                )
            )
        )
    return lines


def _row(words: Sequence[str]) -> str:
    return " ".join(word.ljust(width) for word, width in zip(words, _WIDTHS, strict=True))


def _principals(words: Iterable[str]) -> list[Principal]:
    try:
        return [parse_principal(word.strip()) for word in words]
    except ValueError as error:
        raise illegal_argument(str(error)) from None


def _hmac(given: Given) -> bytes:
    try:
        return base64.b64decode(given.value("hmac"), validate=True)
    except (binascii.Error, ValueError):
        raise illegal_argument("Input byte array has incorrect ending byte") from None


async def _execute(given: Given, console: Console) -> None:
    async with await open_admin_cluster(given, console, call="tokens") as cluster:
        access = Access(cluster)
        if given.has("create"):
            await _create(access, given, console)
        elif given.has("describe"):
            await _describe(access, given, console)
        else:
            await _change(access, given, console)


async def _create(access: Access, given: Given, console: Console) -> None:
    renewers = _principals(given.values("renewer-principal"))
    shown = ", ".join(map(str, renewers))
    period = int(given.value("max-life-time-period"))
    console.print(f"Calling create token operation with renewers :[{shown}] , max-life-time-period :{period}")
    owners = _principals(given.values("owner-principal"))
    made = await access.create_token(renewers, period, owners[0] if owners else None)
    console.print(f"Created delegation token with tokenId : {made.token.token_id}")
    console.print()
    for line in token_lines([made]):
        console.print(line)


async def _change(access: Access, given: Given, console: Console) -> None:
    text, hmac = given.value("hmac"), _hmac(given)
    if given.has("renew"):
        period = int(given.value("renew-time-period"))
        console.print(f"Calling renew token operation with hmac :{text} , renew-time-period :{period}")
        when = await access.renew_token(hmac, period)
        done = "renew"
    else:
        period = int(given.value("expiry-time-period"))
        console.print(f"Calling expire token operation with hmac :{text} , expire-time-period :{period}")
        when = await access.expire_token(hmac, period)
        done = "expire"
    shown = datetime.fromtimestamp(when / 1000, UTC).strftime("%Y-%m-%dT%H:%M")
    console.print(f"Completed {done} operation. New expiry date : {shown}")


async def _describe(access: Access, given: Given, console: Console) -> None:
    owners = _principals(given.values("owner-principal"))
    if owners:
        console.print(f"Calling describe token operation for owners: [{', '.join(map(str, owners))}]")
    else:
        console.print("Calling describe token operation for current user.")
    tokens = await access.tokens(owners or None)
    console.print(f"Total number of tokens : {len(tokens)}")
    for line in token_lines(tokens):
        console.print(line)
