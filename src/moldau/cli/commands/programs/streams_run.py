"""``moldau streams run``: runs a program on Spark, in the foreground or in the background.

Invariant: every failure ends as one line with what to do next. Ctrl-C and SIGTERM stop the query; what its
batch had begun is done again, exactly once, at the next start.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moldau.cli.output import note
from moldau.cli.running import APPLICATION, child_command, run_options, start, until_asked
from moldau.cli.session import (
    COMPRESSION,
    PORT,
    client_settings,
    client_settings_arguments,
    client_settings_options,
    needs,
    pairs,
)

if TYPE_CHECKING:
    from moldau.streams.runner.running import RunningProgram, RunSettings

_PLAIN_SECONDS = 10.0

home_option = click.option(
    "--home",
    envvar="MOLDAU_STREAMS_HOME",
    metavar="DIRECTORY",
    show_envvar=True,
    help="Where applications keep checkpoints and logs [default: ~/.moldau/streams].",
)


@click.command(short_help="Run a program on Spark.")
@click.argument("file", metavar="FILE")
@run_options
@click.option("--name", metavar="ID", help="The application id [default: the name of the file].")
@click.option(
    "--workers", type=click.IntRange(1, 1024), help="How many tasks work at a time [default: Spark's cores]."
)
@click.option(
    "--max-records",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="The most records of a batch.",
)
@click.option(
    "--trigger", metavar="INTERVAL", help="Time between batches, such as '1 second' [default: none]."
)
@click.option(
    "--start-at",
    type=click.Choice(["earliest", "latest"]),
    default="earliest",
    show_default=True,
    help="Where a new application begins to read.",
)
@click.option(
    "--bad-records",
    type=click.Choice(["fail", "continue"]),
    default="fail",
    show_default=True,
    help="What becomes of records that do not decode.",
)
@click.option(
    "--failing-records",
    type=click.Choice(["fail", "continue"]),
    default="fail",
    show_default=True,
    help="What becomes of records on which a function of the program fails.",
)
@click.option("--dead-letter-topic", metavar="TOPIC", help="Keep records that do not decode there.")
@click.option(
    "--changelogs", is_flag=True, help="Write tables to compacted topics that other tools can read."
)
@click.option(
    "--updates",
    type=click.Choice(["all", "last"]),
    default="all",
    show_default=True,
    help="Whether each update of a table is a result, or the last one for each key of a batch.",
)
@click.option("--partitions", type=click.IntRange(min=1), help="Partitions of output topics that are made.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Of topics that are made.")
@click.option("--compression", type=COMPRESSION, default="none")
@click.option("--http-port", type=PORT, help="Answer questions about stores there.")
@home_option
@client_settings_options
def run(file: str, detach: bool, **given: Any) -> None:
    """Run the program of FILE: a Structured Streaming query, exactly once.

    FILE is Python with topology = builder.build(), with builder = StreamsBuilder(), or with def build().

    \b
    Examples:
      moldau streams run word_count.py
      moldau streams run word_count.py --once
      moldau streams run word_count.py --name words --detach --http-port 7070
      moldau streams run clicks.py --master spark://host:7077 --checkpoints hdfs:///checkpoints
    """
    with one_line():
        from moldau.pipelines.directory import PipelineDirectory
        from moldau.streams.runner.programs import program_of_file
        from moldau.streams.runner.running import RunningProgram, streams_home

        program = program_of_file(file)
        name = given["name"] or Path(file).stem
        home = streams_home(given["home"])
        program.load()
        if detach:
            directory = PipelineDirectory(home, name)
            if directory.is_running():
                raise click.ClickException(
                    f"application {name} runs already: 'moldau streams stop {name}' ends it"
                )
            command = [
                *child_command(APPLICATION, Path(file), name, home, given),
                *client_settings_arguments(),
            ]
            start(APPLICATION, directory, command)
            return
        settings = _settings(given, home)
        note(f"starting Spark ({settings.master or 'local[*]'}) for {Path(file).name}")
        ended = _foreground(program, name, settings)
        assert isinstance(ended, RunningProgram)
        query = ended.state.queries[0]
        note(f"application {name} is over: {query.rows} records read in this run")


def _settings(given: dict[str, Any], home: Path) -> "RunSettings":
    from moldau.streams.runner.application import StreamsOptions
    from moldau.streams.runner.running import RunSettings

    streams = StreamsOptions(
        given["bootstrap_server"],
        _login() | pairs(given["options"], "--option"),
        given["failing_records"],
        given["bad_records"],
        given["dead_letter_topic"],
        given["changelogs"],
        given["workers"],
        given["max_records"],
        given["start_at"],
        given["compression"],
        given["partitions"],
        given["replication_factor"],
        updates=given["updates"],
    )
    return RunSettings(
        streams,
        home,
        given["master"],
        pairs(given["conf"], "--conf"),
        given["once"],
        given["trigger"],
        given["checkpoints"],
        given["metrics_port"],
        given["http_port"],
    )


def _login() -> dict[str, str]:
    """How the program proves to the cluster who it is, as options of ``format("moldau")``."""
    prefixes = ("security.", "sasl.", "ssl.")
    return {f"kafka.{key}": value for key, value in client_settings().items() if key.startswith(prefixes)}


@contextmanager
def one_line() -> Iterator[None]:
    """Turns errors into one line."""
    with needs("a program", "spark"):
        from moldau.pipelines.errors import PipelineError
        from moldau.protocol.errors import KafkaError
        from moldau.spark.options import OptionError
        from moldau.spark.session.java import JavaNotFound
        from moldau.streams.errors import StreamsError, TopologyError
        from moldau.streams.files import ProgramError

        try:
            yield
        except (PipelineError, JavaNotFound, StreamsError, TopologyError, ProgramError, OptionError) as error:
            raise click.ClickException(str(error)) from error
        except (KafkaError, OSError) as error:
            raise click.ClickException(
                f"{error}: is the cluster there? --bootstrap-servers names another"
            ) from error
        except KeyboardInterrupt:
            raise SystemExit(130) from None


def _foreground(program: Any, name: str, settings: "RunSettings") -> "RunningProgram":
    from moldau.streams.runner.running import run as run_program

    printed_at = 0.0

    def show(running: "RunningProgram") -> None:
        nonlocal printed_at
        if not printed_at:
            note(f"application {name} runs; Ctrl-C ends it")
            if running.queries is not None:
                note(f"stores: {running.queries.url}/stores")
            if running.metrics is not None:
                note(f"metrics: http://127.0.0.1:{running.metrics.port}/metrics")
        if time.monotonic() - printed_at > _PLAIN_SECONDS:
            printed_at = time.monotonic()
            query = running.state.queries[0]
            lag = "" if query.total_lag is None else f", lag {query.total_lag}"
            note(f"{name}: batch {query.batch_id}, {query.rows} records{lag}")

    with until_asked("ending; what its batch has begun is done again at the next start") as should_stop:
        return run_program(program, name, settings, should_stop=should_stop, on_change=show)
