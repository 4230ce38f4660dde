"""``moldau up``: the platform on this machine. Today that is one broker, so it takes the broker's options.

Law: never more than the union of the commands of the services that it starts.
"""

import click

from moldau.cli.commands.broker import broker

up = click.Command(
    "up",
    params=broker.params,
    callback=broker.callback,
    short_help="Start the platform on this machine (today: one broker).",
    help="""Start the platform on this machine, until Ctrl-C or SIGTERM. Today that is one broker.

    \b
    Examples:
      moldau up
      moldau up --port 9092 --data-dir ./data
      moldau up --config server.properties
    """,
)
