"""AlterClientQuotas.

Behaviour: sets and removes quotas of users, client ids, both, and addresses; each entity has its own result,
and an entity that stands in the request twice is refused. A quota holds for the next request.
"""

import math
import re
from ipaddress import ip_address
from operator import attrgetter
from typing import Any

from moldau.broker.access.asks import every_of
from moldau.broker.bounds.turns import Turn
from moldau.broker.context import RequestContext
from moldau.cluster.controller.security import change_quotas
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    EntryDataResponse,
)
from moldau.security.acls import CLUSTER_NAME, Operation, ResourceType
from moldau.security.quotas import (
    CLIENT_QUOTAS,
    CONNECTIONS,
    FETCH,
    PRODUCE,
    QuotaEntity,
    entity_of,
    shown_entity,
)

ASKS = (
    every_of(
        lambda entry, context: (Operation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME),
        "entries",
        says=True,
    ),
)
Change = tuple[QuotaEntity, str, float | None]

#: Quotas that are whole numbers, with the largest and its name in Java.
_WHOLE = {
    PRODUCE: (2**63 - 1, "LONG"),
    FETCH: (2**63 - 1, "LONG"),
    CONNECTIONS: (2**31 - 1, "INT"),
}
_TYPE_OF = attrgetter("entity_type")
#: So near to a whole number is as good as one.
_NEAR = 1e-6
_HOST = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")


async def handle(request: AlterClientQuotasRequest, context: RequestContext) -> AlterClientQuotasResponse:
    response = AlterClientQuotasResponse()
    changes: list[Change] = []
    seen: set[QuotaEntity] = set()
    turn = Turn()
    for entry in request.entries:
        await turn.give_way()
        error = None
        entity = list({part.entity_type: part for part in entry.entity}.values())
        try:
            changes += _changes(entry, seen)
        except KafkaError as refusal:
            error = refusal.without_stack()
        response.entries.append(_result(entity, error))
    if changes and not request.validate_only:
        await context.services.metadata.submit(lambda image: change_quotas(image, changes))
    return response


def _changes(entry: EntryData, seen: set[QuotaEntity]) -> list[Change]:
    parts = {part.entity_type: part.entity_name for part in entry.entity}
    if not parts:
        raise _refused("Invalid empty client quota entity")
    for kind, name in parts.items():
        if kind not in ("user", "client-id", "ip"):
            raise _refused(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _refused(f"Empty {kind} not supported")
    if "ip" in parts and len(parts) > 1:
        raise _refused(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    address = parts.get("ip")
    if address is not None and not _is_address(address):
        raise _refused(f"{address} is not a valid IP or resolvable host.")
    entity = entity_of(parts)
    names = [operation.key for operation in entry.ops]
    if entity in seen or len(set(names)) < len(names):
        raise _refused(f"Ignoring duplicate entity ClientQuotaEntity(entries={shown_entity(entity)})")
    seen.add(entity)
    known = (CONNECTIONS,) if "ip" in parts else CLIENT_QUOTAS
    for operation in entry.ops:
        if not operation.remove:
            _check_value(operation.key, operation.value, known)
    return [(entity, operation.key, None if operation.remove else operation.value) for operation in entry.ops]


def _check_value(name: str, value: float, known: tuple[str, ...]) -> None:
    if name not in known:
        raise _refused(f"Invalid configuration key {name}")
    if value <= 0:
        raise _refused(f"Quota {name} must be greater than 0")
    if name in _WHOLE and not math.isnan(value):
        largest, kind = _WHOLE[name]
        if value > largest:
            raise _refused(f"Proposed value for {name} is too large for a {kind}.")
        if abs(value - round(value)) > _NEAR:
            raise _refused(f"{name} cannot be a fractional value.")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return _HOST.fullmatch(text) is not None
    return True


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _result(entity: list[EntityData], error: KafkaError | None) -> EntryDataResponse:
    """The entity in the order of its parts' names, as Kafka has it."""
    code, message = (ErrorCode.NONE, None) if error is None else (error.code, error.message)
    return EntryDataResponse(code, message, sorted(entity, key=_TYPE_OF))


def fail(request: Any, error: KafkaError, context: RequestContext) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[_result(entry.entity, error) for entry in request.entries])
