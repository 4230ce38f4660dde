"""``kafka-configs`` for users, clients and addresses: quotas and SCRAM credentials, in Kafka's lines."""

import re
import secrets
from collections.abc import Iterable, Mapping, Sequence

from moldau.cli.kafka_tools.framework.exceptions import illegal_argument
from moldau.cli.kafka_tools.framework.tool import Console
from moldau.client.admin.access import ANY, DEFAULT, EXACT, Access, ScramSetting
from moldau.security.quotas import CLIENT_QUOTAS, CONNECTIONS
from moldau.security.scram import LEAST_ITERATIONS, MECHANISMS, ScramMechanism

#: Entity types of the tool, and of the protocol.
KINDS = {"users": "user", "clients": "client-id", "ips": "ip"}
_TITLES = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_PAIR = re.compile(r"(iterations|password)=(.*?)(?:,(?=iterations=|password=)|$)")


def entity_of(types: Sequence[str], names: Sequence[str]) -> dict[str, str | None]:
    """The entity of the protocol; a default is None there."""
    return {KINDS[kind]: name or None for kind, name in zip(types, names, strict=True)}


def components_of(types: Sequence[str], names: Sequence[str]) -> list[tuple[str, int, str | None]]:
    """The filter for ``--describe``: types without a name match every one."""
    found: list[tuple[str, int, str | None]] = []
    for index, kind in enumerate(types):
        if index >= len(names):
            found.append((KINDS[kind], ANY, None))
        elif names[index] == "":
            found.append((KINDS[kind], DEFAULT, None))
        else:
            found.append((KINDS[kind], EXACT, names[index]))
    return found


def entity_text(entity: Mapping[str, str | None]) -> str:
    parts = []
    for kind in ("user", "client-id", "ip"):
        if kind in entity:
            name = entity[kind]
            parts.append(f"the default {_TITLES[kind]}" if name is None else f"{_TITLES[kind]} '{name}'")
    return ", ".join(parts)


def quota_line(entity: Mapping[str, str | None], values: Mapping[str, float]) -> str:
    shown = ", ".join(f"{name}={java_double(value)}" for name, value in sorted(values.items()))
    return f"Quota configs for {entity_text(entity)} are {shown}"


def scram_line(user: str, mechanisms: Mapping[ScramMechanism, int]) -> str:
    shown = ", ".join(f"{each.title}=iterations={mechanisms[each]}" for each in sorted(mechanisms))
    return f"SCRAM credential configs for user-principal '{user}' are {shown}"


def java_double(value: float) -> str:
    """A number as Java prints it: ``1024.0``, ``1.0E9``."""
    if value and not 1e-3 <= abs(value) < 1e7:
        digits, _, exponent = f"{value:e}".partition("e")
        digits = digits.rstrip("0")
        return f"{digits}0E{int(exponent)}" if digits.endswith(".") else f"{digits}E{int(exponent)}"
    return repr(float(value))


def parse_scram(name: str, user: str, text: str) -> ScramSetting:
    """``iterations=8192,password=secret``; the salt is random."""
    given = dict(_PAIR.findall(text))
    mechanism = MECHANISMS[name]
    if "password" not in given:
        raise illegal_argument(f"Password must be specified for {name}")
    iterations = int(given.get("iterations") or LEAST_ITERATIONS)
    if iterations < LEAST_ITERATIONS:
        raise illegal_argument(
            f"Iterations {iterations} is less than the minimum {LEAST_ITERATIONS} required for {name}"
        )
    return ScramSetting(user, mechanism, given["password"], secrets.token_bytes(16), iterations)


def parse_quotas(added: Mapping[str, str]) -> dict[str, float]:
    found = {}
    for name, text in added.items():
        try:
            found[name] = float(text)
        except ValueError:
            raise illegal_argument(f"Cannot parse quota configuration value for {name}: {text}") from None
    return found


def _refuse_unknown(types: Sequence[str], names: Iterable[str], known: Sequence[str], verb: str) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        kinds = {"users": "quota and SCRAM credential", "ips": "connection quota"}
        what = kinds.get(types[0], "quota") if len(types) == 1 else "quota"
        # Kafka's tool writes a set of Scala in one place, and a list in the other.
        shown = ",".join(unknown) if types == ["ips"] else f"Set({', '.join(unknown)})"
        raise illegal_argument(
            f"Only {what} configs can be {verb} for '{types[0]}' using --bootstrap-server. "
            f"Unexpected config names: {shown}"
        )


async def alter(
    access: Access,
    types: Sequence[str],
    names: Sequence[str],
    added: Mapping[str, str],
    deleted: Sequence[str],
    console: Console,
) -> None:
    types = list(types)
    known = list((CONNECTIONS,) if types == ["ips"] else CLIENT_QUOTAS)
    user = names[0] if types == ["users"] and names[0] else None
    known += list(MECHANISMS) if user is not None else []
    _refuse_unknown(types, added, known, "added")
    _refuse_unknown(types, deleted, known, "deleted")
    quotas: dict[str, float | None] = dict(
        parse_quotas({name: text for name, text in added.items() if name not in MECHANISMS})
    )
    quotas.update(dict.fromkeys((name for name in deleted if name not in MECHANISMS), None))
    if user is not None:
        settings = [parse_scram(name, user, text) for name, text in added.items() if name in MECHANISMS]
        removals = [(user, MECHANISMS[name]) for name in deleted if name in MECHANISMS]
        if settings or removals:
            await access.alter_scram_users(settings, removals)
    if quotas:
        await access.alter_quotas(entity_of(types, names), quotas)
    kind, name = types[0], names[0]
    if name:
        console.print(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        console.print(f"Completed updating default config for {kind} in the cluster.")


async def describe(access: Access, types: Sequence[str], names: Sequence[str], console: Console) -> None:
    for entity, values in await access.quotas(components_of(types, names), strict=True):
        console.print(quota_line(entity, values))
    if list(types) == ["users"] and "" not in names:
        for user, mechanisms in (await access.scram_users(list(names))).items():
            if mechanisms:
                console.print(scram_line(user, mechanisms))
