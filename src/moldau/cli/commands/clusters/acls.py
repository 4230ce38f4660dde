"""``moldau acls``: who may do what; why somebody may or may not; and which ACLs a refused program needs."""

import json
import re
import shlex
from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import IO, TYPE_CHECKING, Any

import click

from moldau.cli.output import note, print_json, print_table
from moldau.cli.session import add_options, cluster_command_options, connected
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
from moldau.security.authorizer import Authorizer
from moldau.security.principals import parse_super_users

if TYPE_CHECKING:
    from moldau.client.transport.cluster import Cluster

_REFUSAL = re.compile(
    r"Principal = (?P<principal>\S+) is Denied operation = (?P<operation>\w+) from host = \S+ "
    r"on resource = (?P<type>\w+):LITERAL:(?P<name>\S+) for request"
)
#: What an ACL is about.
Resource = tuple[ResourceType, str, PatternType]
OPERATION = click.Choice([each.name.lower() for each in Operation if each > Operation.ANY])


@click.group()
def acls() -> None:
    """List, add, remove, check and suggest ACLs.

    \b
    Examples:
      moldau acls list --user ann
      moldau acls add --user ann --operation read --topic orders
      moldau acls check --user ann --operation read --topic orders
      moldau acls suggest broker.log
    """


_naming_options = add_options(
    click.option("--topic", metavar="NAME", help="A topic, or '*'."),
    click.option("--group", metavar="NAME", help="A group, or '*'."),
    click.option("--transactional-id", metavar="ID", help="A transactional id, or '*'."),
    click.option("--cluster", "of_cluster", is_flag=True, help="The cluster."),
    click.option("--prefixed", is_flag=True, help="The name is the beginning of names."),
)


def resource_options(command: Callable[..., None], *, is_needed: bool = True) -> Any:
    """Adds the options that name a resource, which the command gets as ``resource``."""

    @wraps(command)
    def run(
        topic: str | None,
        group: str | None,
        transactional_id: str | None,
        of_cluster: bool,
        prefixed: bool,
        **options: Any,
    ) -> None:
        given = [
            (kind, name)
            for kind, name in (
                (ResourceType.TOPIC, topic),
                (ResourceType.GROUP, group),
                (ResourceType.TRANSACTIONAL_ID, transactional_id),
                (ResourceType.CLUSTER, CLUSTER_NAME if of_cluster else None),
            )
            if name is not None
        ]
        if len(given) > 1 or (is_needed and not given):
            raise click.UsageError("name one of --topic, --group, --transactional-id and --cluster")
        pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
        command(resource=(*given[0], pattern) if given else None, **options)

    return _naming_options(run)


def principal_of(user: str) -> str:
    return user if ":" in user else f"User:{user}"


@acls.command("list")
@click.option("--user", help="Only ACLs of this user.")
@partial(resource_options, is_needed=False)
@cluster_command_options
def list_(user: str | None, resource: Resource | None, as_json: bool) -> None:
    """List ACLs, all of them or those of a user or a resource."""
    wanted = AclFilter() if resource is None else AclFilter(resource[0], resource[1])
    if user is not None:
        wanted = wanted._replace(principal=principal_of(user))

    async def work(cluster: "Cluster") -> list[Acl]:
        from moldau.client.admin.access import Access

        return await Access(cluster).list_acls(wanted)

    found = sorted(connected(work))
    if as_json:
        print_json([acl_object(acl) for acl in found])
    elif not found:
        note("There are no such ACLs.")
    else:
        print_table(
            ["Resource", "Name", "Pattern", "Principal", "Host", "Operation", "Permission"],
            [list(acl_object(acl).values()) for acl in found],
        )


def acl_object(acl: Acl) -> dict[str, str]:
    return {
        "resource": ResourceType(acl.resource_type).name.lower(),
        "name": acl.resource_name,
        "pattern": PatternType(acl.pattern_type).name.lower(),
        "principal": acl.principal,
        "host": acl.host,
        "operation": Operation(acl.operation).name.lower(),
        "permission": Permission(acl.permission).name.lower(),
    }


rights_options = add_options(
    click.option("--operation", "operations", multiple=True, required=True, type=OPERATION),
    click.option("--host", default=WILDCARD, show_default=True, help="From this address only."),
    click.option("--deny", is_flag=True, help="May not, whatever else is allowed."),
)


def rules(principal: str, resource: Resource, operations: Iterable[str], host: str, deny: bool) -> list[Acl]:
    """One ACL for each operation."""
    permission = Permission.DENY if deny else Permission.ALLOW
    return [Acl(*resource, principal, host, Operation[each.upper()], permission) for each in operations]


def _rule_options(command: Callable[..., None]) -> Any:
    """Adds the options that make ACLs, which the command gets as ``wanted``."""

    @wraps(command)
    def run(
        user: str, resource: Resource, operations: tuple[str, ...], host: str, deny: bool, **options: Any
    ) -> None:
        command(wanted=rules(principal_of(user), resource, operations, host, deny), **options)

    user_option = click.option("--user", required=True, help="Who; '*' for everybody.")
    return user_option(rights_options(resource_options(run)))


@acls.command("add")
@_rule_options
@cluster_command_options
def add(wanted: list[Acl], as_json: bool) -> None:
    """Allow something, or deny it."""

    async def work(cluster: "Cluster") -> None:
        from moldau.client.admin.access import Access

        await Access(cluster).create_acls(wanted)

    connected(work)
    _report(wanted, "Added", as_json)


@acls.command("remove")
@_rule_options
@cluster_command_options
def remove(wanted: list[Acl], as_json: bool) -> None:
    """Remove ACLs."""

    async def work(cluster: "Cluster") -> list[Acl]:
        from moldau.client.admin.access import Access

        return await Access(cluster).delete_acls([AclFilter(*acl) for acl in wanted])

    _report(connected(work), "Removed", as_json)


def _report(changed: list[Acl], verb: str, as_json: bool) -> None:
    if as_json:
        print_json([acl_object(acl) for acl in changed])
    else:
        for acl in changed:
            click.echo(f"{verb} {sentence(acl)}")


def sentence(acl: Acl) -> str:
    """``User:ann may read topic orders``."""
    verb = "may" if acl.permission == Permission.ALLOW else "may not"
    names = f"{acl.resource_name}…" if acl.pattern_type == PatternType.PREFIXED else acl.resource_name
    where = "" if acl.host == WILDCARD else f" from {acl.host}"
    kind = ResourceType(acl.resource_type).name.lower().replace("_", " ")
    operation = Operation(acl.operation).name.lower().replace("_", " ")
    return f"{acl.principal} {verb} {operation} {kind} {names}{where}"


@acls.command("check")
@click.option("--user", required=True, help="Who.")
@click.option("--operation", required=True, type=OPERATION)
@click.option("--host", default="127.0.0.1", show_default=True, help="From where.")
@resource_options
@cluster_command_options
def check(user: str, operation: str, host: str, resource: Resource, as_json: bool) -> None:
    """Say whether somebody may do something, and which rule decides; exit code 1 for a no."""
    kind, name, _ = resource

    async def work(cluster: "Cluster") -> Authorizer:
        return await _authorizer(cluster)

    authorizer = connected(work)
    decision = authorizer.decide(principal_of(user), host, Operation[operation.upper()], kind, name)
    reason = _REASONS[decision.rule] if isinstance(decision.rule, str) else sentence(decision.rule)
    if as_json:
        print_json({"allowed": decision.allowed, "reason": reason})
    else:
        click.echo(f"{'yes' if decision.allowed else 'no'}: {reason}")
    if not decision.allowed:
        raise SystemExit(1)


_REASONS = {
    "SuperUser": "it is one of super.users",
    "DefaultAllow": "no ACL is about this, and allow.everyone.if.no.acl.found is set",
    "DefaultDeny": "no ACL allows it",
}


async def _authorizer(cluster: "Cluster") -> Authorizer:
    """The broker's authorizer, made again from what it tells."""
    from moldau.client.admin.access import Access
    from moldau.client.admin.admin import Admin
    from moldau.client.admin.descriptions import ConfigResource
    from moldau.client.admin.descriptions import ResourceType as ConfigResourceType
    from moldau.protocol.errors import KafkaError

    found = await Access(cluster).list_acls()
    names = ["super.users", "allow.everyone.if.no.acl.found"]
    broker = ConfigResource(ConfigResourceType.BROKER, str(next(iter(cluster.brokers))))
    outcome = (await Admin(cluster).describe_configs({broker: names}))[broker]
    if isinstance(outcome, KafkaError):
        raise outcome
    values = {entry.name: entry.value or "" for entry in outcome}
    open_by_default = values.get("allow.everyone.if.no.acl.found", "").lower() == "true"
    return Authorizer(found, parse_super_users(values.get("super.users", "")), open_by_default)


@acls.command("suggest")
@click.argument("log", type=click.File("r", errors="replace"))
def suggest(log: IO[str]) -> None:
    """Propose the fewest ACLs for what a broker's log says was refused.

    Let a program run once without rights, and give the broker's log (the logger kafka.authorizer.logger at
    INFO) or its audit log (moldau.audit.log). A program that stops at its first refusal needs several runs.
    """
    for line in suggestions(log):
        click.echo(line)


def _refusal(line: str) -> dict[str, str] | None:
    """A refusal in a line of the broker's log, or of its audit log."""
    if not line.startswith("{"):
        found = _REFUSAL.search(line)
        return None if found is None else found.groupdict()
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if not isinstance(event, dict) or event.get("event") != "denied":
        return None
    kind = str(event.get("resource", "")).replace("_", " ").title().replace(" ", "")
    return {
        "principal": str(event.get("principal", "")),
        "operation": str(event.get("operation", "")),
        "type": kind,
        "name": str(event.get("name", "")),
    }


def suggestions(lines: Iterable[str]) -> list[str]:
    """Commands; what another suggestion implies is left out."""
    wanted: dict[tuple[str, ResourceType, str], set[Operation]] = {}
    kinds = {kind.title: kind for kind in ResourceType}
    for line in lines:
        found = _refusal(line)
        if found is not None and found["type"] in kinds and found["operation"] in Operation.__members__:
            key = (found["principal"], kinds[found["type"]], found["name"])
            wanted.setdefault(key, set()).add(Operation[found["operation"]])
    commands = []
    for (principal, kind, name), operations in wanted.items():
        if operations & {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}:
            operations.discard(Operation.DESCRIBE)
        if Operation.ALTER_CONFIGS in operations:
            operations.discard(Operation.DESCRIBE_CONFIGS)
        if kind not in OPERATIONS or kind in (ResourceType.DELEGATION_TOKEN, ResourceType.USER):
            continue
        resource = f"--{kind.name.lower().replace('_', '-')} {shlex.quote(name)}"
        if kind is ResourceType.CLUSTER:
            resource = "--cluster"
        words = " ".join(f"--operation {each.name.lower()}" for each in sorted(operations))
        user = shlex.quote(principal.removeprefix("User:"))
        commands.append(f"moldau acls add --user {user} {words} {resource}")
    return commands
