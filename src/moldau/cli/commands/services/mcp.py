"""``moldau mcp``: lets an assistant look at a cluster, over the Model Context Protocol on standard input and
output.

Invariant: standard output belongs to the protocol; everything else goes to standard error. Without
``--allow-writes`` nothing can be changed.
"""

import click

from moldau.cli.output import log_to_stderr
from moldau.cli.session import bootstrap_option, client_settings, needs


@click.command()
@bootstrap_option
@click.option(
    "-r",
    "--registry",
    envvar="MOLDAU_SCHEMA_REGISTRY_URL",
    metavar="URL[,…]",
    show_envvar=True,
    help="The schema registry, to decode records.",
)
@click.option("--registry-user", envvar="MOLDAU_SCHEMA_REGISTRY_USER", metavar="NAME:PASSWORD")
@click.option(
    "--mask",
    "masks",
    multiple=True,
    metavar="TOPICS:FIELD",
    help="Hide a field, such as 'cust*:value.card'; repeatable.",
)
@click.option("--allow-writes", is_flag=True, help="Also tools that create topics and produce records.")
def mcp(
    bootstrap_server: str,
    registry: str | None,
    registry_user: str | None,
    masks: tuple[str, ...],
    allow_writes: bool,
) -> None:
    """Serve tools for an assistant on standard input and output, until they are closed.

    The tools list and describe topics and groups, sample and query records, show schemas, and say why a group
    lags. They act as the user of the client settings and change nothing.

    \b
    Examples:
      moldau mcp
      moldau mcp -b kafka1:9092 -r http://registry:8081 --mask '*:value.password'
      moldau mcp --command-config client.properties
    In the configuration of an assistant:
      {"mcpServers": {"moldau": {"command": "moldau", "args": ["mcp", "-b", "127.0.0.1:9092"]}}}
    """
    log_to_stderr("warning")
    with needs("a server of tools", "mcp"):
        from moldau.console.assistant import assistant_server
        from moldau.console.masks import Masks, parse_mask
        from moldau.console.settings import ClusterSettings
        from moldau.console.workspace import Workspace
    from moldau.base.clock import SystemClock
    from moldau.cli.session import run

    try:
        hidden = Masks([parse_mask(each) for each in masks])
        settings = ClusterSettings("local", bootstrap_server, client_settings(), registry, registry_user)
        security = settings.security()
    except ValueError as error:
        raise click.UsageError(str(error)) from error

    async def work() -> None:
        workspace = Workspace(settings, security, None, SystemClock())
        try:
            await assistant_server(workspace, hidden, may_write=allow_writes).run_stdio_async()
        finally:
            await workspace.close()

    run(work())
