"""DescribeClientQuotas.

Behaviour: the quotas of the entities that a filter matches; a strict one matches only entities that have no
further part. No component at all asks for everything.
"""

from typing import Any

from moldau.broker.access.asks import cluster
from moldau.broker.context import RequestContext
from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from moldau.security.acls import Operation
from moldau.security.quotas import QuotaEntity, parts_of

ASKS = (cluster(Operation.DESCRIBE_CONFIGS),)

_EXACT, _DEFAULT, _ANY = 0, 1, 2


def handle(request: DescribeClientQuotasRequest, context: RequestContext) -> DescribeClientQuotasResponse:
    wanted: dict[str, ComponentData] = {}
    for component in request.components:
        _check(component)
        if component.entity_type in wanted:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Entity type {component.entity_type} cannot appear more than once in the filter.",
            )
        wanted[component.entity_type] = component
    if "ip" in wanted and len(wanted) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component.",
        )
    strict = request.strict
    entries = [
        _entry(entity, values)
        for entity, values in context.services.image.security.quotas.items()
        if _matches(parts_of(entity), wanted, strict)
    ]
    return DescribeClientQuotasResponse(error_message="", entries=entries)


def _check(component: ComponentData) -> None:
    kind, match = component.entity_type, component.match
    if not kind:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
    if kind not in ("user", "client-id", "ip"):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    reason = None
    if component.match_type == _EXACT:
        if match is None:
            reason = "Request specified MATCH_TYPE_EXACT, but set match string to null."
    elif component.match_type in (_DEFAULT, _ANY):
        if match is not None:
            name = "DEFAULT" if component.match_type == _DEFAULT else "SPECIFIED"
            reason = f"Request specified MATCH_TYPE_{name}, but also specified a match string."
    else:
        reason = f"Unknown match type {component.match_type}"
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, reason)


def _matches(parts: dict[str, str | None], wanted: dict[str, ComponentData], strict: bool) -> bool:
    if strict and set(parts) != set(wanted):
        return False
    for kind, component in wanted.items():
        if kind not in parts:
            return False
        name = parts[kind]
        if component.match_type == _EXACT and name != component.match:
            return False
        if component.match_type == _DEFAULT and name is not None:
            return False
    return True


def _entry(entity: QuotaEntity, values: Any) -> EntryData:
    parts = [EntityData(kind, name) for kind, name in sorted(parts_of(entity).items())]
    return EntryData(parts, [ValueData(name, value) for name, value in values.items()])


def fail(request: Any, error: KafkaError, context: RequestContext) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
