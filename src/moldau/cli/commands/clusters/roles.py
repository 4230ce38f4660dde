"""``moldau roles``: sets of rights with a name, and who has them; kept as ACLs (``security/roles.py``)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.commands.clusters.acls import Resource, principal_of, resource_options, rights_options, rules
from moldau.cli.commands.clusters.acls import sentence as acl_sentence
from moldau.cli.output import note, print_json, print_table
from moldau.cli.session import cluster_command_options, connected
from moldau.security import roles as of_acls
from moldau.security.acls import Acl, AclFilter

if TYPE_CHECKING:
    from moldau.client.transport.cluster import Cluster


@click.group()
def roles() -> None:
    """Give users sets of rights that have a name.

    A role is kept among the ACLs, and so is what its members get from it: 'moldau acls list' shows all of it,
    and a cluster of Apache Kafka understands it.

    \b
    Examples:
      moldau roles grant analyst --operation read --topic orders
      moldau roles grant analyst --operation read --group analysts- --prefixed
      moldau roles join analyst ann
      moldau roles list
      moldau roles leave analyst ann
      moldau roles delete analyst
    """


def _name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    try:
        return of_acls.check_name(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_role_argument = click.argument("role", callback=_name)
_user_argument = click.argument("user")


def _changed(plan: Callable[[list[Acl]], of_acls.Change], as_json: bool) -> None:
    """Reads the ACLs, makes the change, and says what it was."""

    async def work(cluster: "Cluster") -> of_acls.Change:
        from moldau.client.admin.access import Access

        access = Access(cluster)
        change = plan(await access.list_acls())
        if change.add:
            await access.create_acls(change.add)
        if change.remove:
            await access.delete_acls([AclFilter(*acl) for acl in change.remove])
        return change

    change = connected(work)
    if as_json:
        print_json(
            {
                "added": [acl_sentence(acl) for acl in change.add],
                "removed": [acl_sentence(acl) for acl in change.remove],
            }
        )
        return
    for verb, acls in (("Added", change.add), ("Removed", change.remove)):
        for acl in acls:
            click.echo(f"{verb} {_sentence(acl)}")
    if not change.add and not change.remove:
        note("Nothing had to be changed.")


def _sentence(acl: Acl) -> str:
    """``User:ann has the role analyst``, or what the ACL says."""
    role = acl.resource_name.removeprefix(f"{of_acls.TYPE}:")
    if acl == of_acls.membership(role, acl.principal):
        return f"{acl.principal} as one who has the role {role}"
    return acl_sentence(acl)


def _rights_command(plan: Callable[[list[Acl], str, list[Acl]], of_acls.Change]) -> Callable[..., None]:
    def run(
        role: str, resource: Resource, operations: tuple[str, ...], host: str, deny: bool, as_json: bool
    ) -> None:
        rights = rules(f"{of_acls.TYPE}:{role}", resource, operations, host, deny)
        _changed(lambda acls: plan(acls, role, rights), as_json)

    return run


def _add_rights_command(name: str, plan: Any, says: str) -> None:
    command = resource_options(cluster_command_options(_rights_command(plan)))
    roles.command(name, help=says)(_role_argument(rights_options(command)))


_add_rights_command("grant", of_acls.grant, "Allow something to a role and to all who have it.")
_add_rights_command("revoke", of_acls.revoke, "Take a right from a role and from those who have it.")


@roles.command("join")
@_role_argument
@_user_argument
@cluster_command_options
def join(role: str, user: str, as_json: bool) -> None:
    """Give a role to somebody."""
    principal = principal_of(user)
    _changed(lambda acls: of_acls.join(acls, role, principal), as_json)


@roles.command("leave")
@_role_argument
@_user_argument
@cluster_command_options
def leave(role: str, user: str, as_json: bool) -> None:
    """Take a role from somebody, with the rights that no other role gives."""
    principal = principal_of(user)
    _changed(lambda acls: of_acls.leave(acls, role, principal), as_json)


@roles.command("delete")
@_role_argument
@cluster_command_options
def delete(role: str, as_json: bool) -> None:
    """Take a role from everybody, and forget it."""
    _changed(lambda acls: of_acls.delete(acls, role), as_json)


@roles.command("mend")
@cluster_command_options
def mend(as_json: bool) -> None:
    """Give back to members what their roles have and they do not."""
    _changed(of_acls.mend, as_json)


@roles.command("list")
@cluster_command_options
def list_(as_json: bool) -> None:
    """List roles with their rights and members."""

    async def work(cluster: "Cluster") -> list[Acl]:
        from moldau.client.admin.access import Access

        return await Access(cluster).list_acls()

    found = of_acls.roles_of(connected(work))
    rights = {
        role.name: [acl_sentence(acl).removeprefix(f"{acl.principal} ") for acl in sorted(role.rights)]
        for role in found.values()
    }
    if as_json:
        print_json(
            [
                {"role": role.name, "rights": rights[role.name], "members": sorted(role.members)}
                for role in found.values()
            ]
        )
    elif not found:
        note("There are no roles: 'moldau roles grant' makes one.")
    else:
        print_table(
            ["Role", "Rights", "Members"],
            [
                [role.name, "; ".join(rights[role.name]), ", ".join(sorted(role.members))]
                for role in found.values()
            ],
        )
