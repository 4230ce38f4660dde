"""``moldau kafka-acls``: add, list and remove ACLs, as Kafka's AclCommand does.

Invariant: all options are checked before anything changes; what would be removed is shown and asked about,
unless ``--force`` is given.
"""

import asyncio
from collections.abc import Iterable, Sequence

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
from moldau.client.admin.access import Access
from moldau.protocol.errors import KafkaError
from moldau.security.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

TOOL = Tool(
    "kafka-acls",
    "Adds, lists and removes ACLs.",
    Options(
        *CLUSTER_OPTIONS,
        Option("add", "Add ACLs."),
        Option("list", "List ACLs; of a resource where one is named."),
        Option("remove", "Remove ACLs."),
        Option("topic", "A topic, or * for all.", "name"),
        Option("group", "A group, or * for all.", "name"),
        Option("cluster", "The cluster."),
        Option("transactional-id", "A transactional id, or * for all.", "id"),
        Option("delegation-token", "A delegation token, or * for all.", "id"),
        Option("user-principal", "A user whose tokens are meant, as User:ann.", "principal"),
        Option("resource-pattern-type", "literal, prefixed, any or match.", "type", default="literal"),
        Option("operation", "What is allowed or denied; All unless it is given.", "operation"),
        Option("allow-principal", "Who may, as User:ann.", "principal"),
        Option("deny-principal", "Who may not.", "principal"),
        Option("allow-host", "Addresses that are allowed; all unless it is given.", "host"),
        Option("deny-host", "Addresses that are denied; all unless it is given.", "host"),
        Option("principal", "With --list: only ACLs of this principal.", "principal"),
        Option("producer", "The ACLs that a producer needs."),
        Option("consumer", "The ACLs that a consumer needs."),
        Option("idempotent", "With --producer: an idempotent one."),
        Option("force", "Ask nothing."),
    ),
    (
        "--bootstrap-server localhost:9092 --add --allow-principal User:ann --operation Read --topic orders",
        "--bootstrap-server localhost:9092 --add --allow-principal User:bob --consumer --topic t --group g",
        "--bootstrap-server localhost:9092 --list --topic orders",
    ),
)

Pattern = tuple[ResourceType, str, PatternType]
Entries = dict[Pattern, list[Acl]]

#: As Kafka's tool lists them, which is in no order that has a reason.
_SUPPORTED = {
    ResourceType.TOPIC: "READ ALL CREATE ALTER DESCRIBE_CONFIGS DELETE ALTER_CONFIGS DESCRIBE WRITE",
    ResourceType.GROUP: "READ ALL DESCRIBE_CONFIGS DELETE ALTER_CONFIGS DESCRIBE",
}


def main(arguments: Sequence[str], console: Console) -> int:
    if not arguments:
        raise OptionError("This tool helps to manage acls on kafka.")
    try:
        given = TOOL.options.parse(with_bootstrap_server(arguments, console))
        check_options(given)
        asyncio.run(_execute(given, console))
    except ToolError as error:
        console.print(f"Error while executing ACL command: {error.message}")
        console.print(exception_line(error))
        console.print()
        return 1
    except KafkaError as error:
        console.print(f"Error while executing ACL command: {exception_line(error)}")
        for line in execution_lines(error):
            console.print(line)
        console.print()
        return 1
    return 0


# Options -----------------------------------------------------------------------------------------------


def check_options(given: Given) -> None:
    actions = [name for name in ("add", "list", "remove") if given.has(name)]
    if len(actions) != 1:
        raise OptionError("Command must include exactly one action: --list, --add, --remove. ")
    if given.has("idempotent") and not given.has("producer"):
        raise OptionError("The --idempotent option is only available if --producer is set")
    if given.has("producer") or given.has("consumer"):
        for option in ("operation", "deny-principal", "deny-host"):
            if given.has(option):
                raise OptionError(
                    f"Option --{'producer' if given.has('producer') else 'consumer'} can't be used with "
                    f"option --{option}"
                )
    if given.has("producer") and not given.has("topic"):
        raise OptionError("With --producer you must specify a --topic")
    if given.has("consumer") and not (given.has("topic") and given.has("group")):
        raise OptionError("With --consumer you must specify a --topic and a --group and no --cluster option")
    if given.has("add") and not (given.has("allow-principal") or given.has("deny-principal")):
        raise OptionError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )


def patterns_of(given: Given) -> list[Pattern]:
    """The resources that are named, in the order of Kafka's tool."""
    name = given.value("resource-pattern-type").upper()
    if name not in ("LITERAL", "PREFIXED", "ANY", "MATCH"):
        raise illegal_argument(f"Unknown resource pattern type {given.value('resource-pattern-type')}")
    kind = PatternType[name]
    found: list[Pattern] = []
    for option, resource in (
        ("topic", ResourceType.TOPIC),
        ("group", ResourceType.GROUP),
        ("transactional-id", ResourceType.TRANSACTIONAL_ID),
        ("delegation-token", ResourceType.DELEGATION_TOKEN),
        ("user-principal", ResourceType.USER),
    ):
        found += [(resource, value.strip(), kind) for value in given.values(option)]
    if given.has("cluster") or given.has("idempotent"):
        found.append((ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    return found


def acls_of(given: Given) -> Entries:
    """The ACLs that the options stand for, by resource."""
    patterns = patterns_of(given)
    if not patterns:
        raise OptionError(
            "You must specify at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    if given.has("producer") or given.has("consumer"):
        return _roles(given, patterns)
    words = given.values("operation") or ["All"]
    found: Entries = {}
    for pattern in patterns:
        operations = [_operation(word, pattern[0]) for word in words]
        found[pattern] = _entries(given, pattern, operations)
    return found


def _roles(given: Given, patterns: Sequence[Pattern]) -> Entries:
    wanted: dict[ResourceType, list[Operation]] = {}
    if given.has("producer"):
        wanted[ResourceType.TOPIC] = [Operation.WRITE, Operation.DESCRIBE, Operation.CREATE]
        wanted[ResourceType.TRANSACTIONAL_ID] = [Operation.WRITE, Operation.DESCRIBE]
        if given.has("idempotent"):
            wanted[ResourceType.CLUSTER] = [Operation.IDEMPOTENT_WRITE]
    if given.has("consumer"):
        reads = [Operation.READ, Operation.DESCRIBE]
        before = wanted.get(ResourceType.TOPIC, [])
        wanted[ResourceType.TOPIC] = list(dict.fromkeys([*before, *reads]))
        wanted[ResourceType.GROUP] = [Operation.READ]
    return {
        pattern: _entries(given, pattern, wanted[pattern[0]]) for pattern in patterns if pattern[0] in wanted
    }


def _operation(word: str, resource: ResourceType) -> Operation:
    """``DescribeConfigs`` and ``DESCRIBE_CONFIGS`` are the same."""
    plain = word.replace("_", "").lower()
    supported = [*OPERATIONS[resource], Operation.ALL]
    for operation in supported:
        if operation.name.replace("_", "").lower() == plain:
            return operation
    names = _SUPPORTED.get(resource, " ".join(each.name for each in supported)).split()
    raise OptionError(f"ResourceType {resource.name} only supports operations [{', '.join(names)}]")


def _entries(given: Given, pattern: Pattern, operations: Sequence[Operation]) -> list[Acl]:
    resource, name, kind = pattern
    found = []
    for permission, word in ((Permission.ALLOW, "allow"), (Permission.DENY, "deny")):
        hosts = given.values(f"{word}-host") or [WILDCARD]
        for principal in given.values(f"{word}-principal"):
            if ":" not in principal:
                raise illegal_argument(
                    f"expected a string in format principalType:principalName but got {principal}"
                )
            found += [
                Acl(resource, name, kind, principal.strip(), host, operation, permission)
                for host in hosts
                for operation in operations
            ]
    return found


# Lines -------------------------------------------------------------------------------------------------


def pattern_text(kind: int, name: str | None, matching: int) -> str:
    return (
        f"ResourcePattern(resourceType={ResourceType(kind).name}, name={name}, "
        f"patternType={PatternType(matching).name})"
    )


def by_resource(acls: Iterable[Acl]) -> Entries:
    found: Entries = {}
    for acl in acls:
        pattern = (ResourceType(acl[0]), acl[1], PatternType(acl[2]))
        found.setdefault(pattern, []).append(acl)
    return found


def entry_lines(acls: Iterable[Acl]) -> str:
    return "\n".join(f"\t{acl.entry()}" for acl in acls)


def list_lines(acls: Iterable[Acl]) -> list[str]:
    lines = []
    for pattern, found in by_resource(acls).items():
        lines += [f"Current ACLs for resource `{pattern_text(*pattern)}`:", entry_lines(found), ""]
    return lines


# The cluster -------------------------------------------------------------------------------------------


async def _execute(given: Given, console: Console) -> None:
    wanted = acls_of(given) if given.has("add") else {}
    filters = _filters(given) if given.has("remove") else []
    call = "createAcls" if given.has("add") else "describeAcls" if given.has("list") else "deleteAcls"
    async with await open_admin_cluster(given, console, call=call) as cluster:
        access = Access(cluster)
        if given.has("add"):
            await _add(access, wanted, console)
        elif given.has("list"):
            await _list(access, given, console)
        else:
            await _remove(access, filters, given, console)


async def _add(access: Access, wanted: Entries, console: Console) -> None:
    for pattern, acls in wanted.items():
        if pattern[2] not in (PatternType.LITERAL, PatternType.PREFIXED):
            raise illegal_argument(
                "A '--resource-pattern-type' value of 'Any' or 'Match' is not valid when adding acls."
            )
        there = set(await access.list_acls(AclFilter(*pattern)))
        for acl in acls:
            if acl in there:
                console.print(f"Acl (pattern={pattern_text(*pattern)}, entry={acl.entry()}) already exists.")
        new = [acl for acl in acls if acl not in there]
        if new:
            console.print(f"Adding ACLs for resource `{pattern_text(*pattern)}`: ")
            console.print(f" {entry_lines(new)}\n")
            await access.create_acls(new)


def _list_filters(given: Given) -> list[AclFilter]:
    return [AclFilter(*pattern) for pattern in patterns_of(given)] or [AclFilter()]


async def _list(access: Access, given: Given, console: Console) -> None:
    found = [acl for wanted in _list_filters(given) for acl in await access.list_acls(wanted)]
    principals = given.values("principal")
    if not principals:
        for line in list_lines(found):
            console.print(line)
    for principal in principals:
        console.print(f"ACLs for principal `{principal}`")
        for line in list_lines(acl for acl in found if acl.principal == principal):
            console.print(line)


def _filters(given: Given) -> list[AclFilter]:
    """What is to be removed: these ACLs, or all of the resources where none are named."""
    if not patterns_of(given):
        raise OptionError(
            "You must specify at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    named = any(given.has(name) for name in ("allow-principal", "deny-principal", "producer", "consumer"))
    if not named:
        return [AclFilter(*pattern) for pattern in patterns_of(given)]
    return [AclFilter(*acl) for acls in acls_of(given).values() for acl in acls]


async def _remove(access: Access, filters: list[AclFilter], given: Given, console: Console) -> None:
    for wanted in filters:
        if not given.has("force"):
            pattern = pattern_text(wanted.resource_type, wanted.resource_name, wanted.pattern_type)
            question = f"Are you sure you want to delete all ACLs for resource filter `{pattern}`? (y/n)"
            if wanted.principal is not None:
                acl = Acl(*wanted)  # type: ignore[arg-type]
                question = (
                    f"Are you sure you want to remove ACLs: \n \t{acl.entry()}\n "
                    f"from resource filter `{pattern}`? (y/n)"
                )
            console.print(question)
            if console.stdin.readline().strip().lower() != b"y":
                continue
        await access.delete_acls([wanted])
