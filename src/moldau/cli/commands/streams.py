"""``moldau streams``: programs for stream processing.

Invariant: ``plan`` needs neither a cluster nor Spark: it loads the program and shows what it would be.
"""

from pathlib import Path

import click

from moldau.cli.output import note


@click.group(short_help="Programs for stream processing.")
def streams() -> None:
    """Programs for stream processing.

    \b
    Examples:
      moldau streams plan word_count.py
      moldau streams plan word_count.py --svg word_count.svg
      moldau streams plan word_count.py --describe
    """


@streams.command()
@click.argument("file", metavar="FILE")
@click.option("--svg", metavar="FILE", help="Write the picture to a file as well.")
@click.option("--describe", is_flag=True, help="Print the text of Kafka's Topology.describe() instead.")
@click.option(
    "--partitions",
    multiple=True,
    metavar="TOPIC=N",
    help="How many partitions a topic has, to check joins; may be given several times.",
)
def plan(file: str, svg: str | None, describe: bool, partitions: tuple[str, ...]) -> None:
    """Draw the topology of FILE, and say what is missing in it.

    FILE is Python with topology = builder.build(), with builder = StreamsBuilder(), or with def build().

    \b
    Examples:
      moldau streams plan examples/streams/word_count.py
      moldau streams plan clicks.py --partitions clicks=6 --partitions profiles=3
    """
    from moldau.streams.errors import TopologyError
    from moldau.streams.files import ProgramError, load_topology
    from moldau.streams.topology.advice import advise
    from moldau.streams.topology.pictures import svg_picture, text_picture

    counts = _counts(partitions)
    try:
        topology = load_topology(file)
    except (ProgramError, TopologyError) as error:
        raise click.ClickException(str(error)) from error
    if describe:
        click.echo(topology.describe(), nl=False)
    else:
        for line in text_picture(topology):
            click.echo(line)
    if svg is not None:
        try:
            Path(svg).write_text(svg_picture(topology), encoding="utf-8")
        except OSError as error:
            raise click.ClickException(f"{svg} cannot be written: {error.strerror}") from error
        note(f"{svg} is written")
    advice = advise(topology, counts)
    for each in advice:
        note(f"{each.kind}: {each.problem}: {each.fix}")
    if any(each.kind == "error" for each in advice):
        raise click.exceptions.Exit(1)


def _counts(partitions: tuple[str, ...]) -> dict[str, int] | None:
    counts: dict[str, int] = {}
    for each in partitions:
        topic, _, count = each.partition("=")
        if not topic or not count.isdigit():
            raise click.UsageError(f"--partitions {each}: write TOPIC=N, such as clicks=6")
        counts[topic] = int(count)
    return counts or None
