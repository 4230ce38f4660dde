"""``moldau zookeeper``: a ZooKeeper server in the foreground, for a cluster on one machine.

Invariant: the ready line is printed when the server answers, and the server ends with this command.
"""

import signal
import time
from pathlib import Path

import click

from moldau.cli.session import PORT

_START_SECONDS = 60.0
_STOP_SECONDS = 10.0


@click.command()
@click.option("--port", type=PORT, default=2181, show_default=True, help="0 is a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("./data/zookeeper"),
    show_default=True,
    metavar="DIR",
)
@click.option(
    "--tick-ms", type=click.IntRange(10, 60_000), default=2000, show_default=True, help="Its tickTime."
)
def zookeeper(port: int, host: str, data_dir: Path, tick_ms: int) -> None:
    """Run the ZooKeeper that comes with PySpark until Ctrl-C or SIGTERM; it needs Java.

    One server is for trying things out: a cluster that must survive the loss of a machine has an ensemble of
    three.

    \b
    Examples:
      moldau zookeeper
      moldau up --brokers 3 --zookeeper 127.0.0.1:2181
      moldau broker --config server0.properties
    """
    from moldau.cluster.store.zookeeper import server

    java, jars = _java_and_jars()
    port = port or server.free_port()
    if server.answers(port, host):
        raise click.ClickException(
            f"a ZooKeeper answers at {host}:{port} already. Next: choose another --port"
        )
    try:
        config = server.write_config(data_dir, port, host=host, tick_ms=tick_ms)
        command = server.server_command(java, jars, config)
    except OSError as error:
        raise click.ClickException(
            f"{data_dir} cannot be used: {error.strerror}. Next: choose another --data-dir"
        ) from error
    except server.ZooKeeperNotFound as error:
        raise click.ClickException(str(error)) from error
    signal.signal(signal.SIGTERM, _interrupt)
    process = server.start(command, data_dir / "zookeeper.log")
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not server.answers(port, host):
            if process.poll() is not None or time.monotonic() > deadline:
                raise click.ClickException(f"ZooKeeper did not start; {data_dir / 'zookeeper.log'} says why")
            time.sleep(0.05)
        click.echo(f"moldau zookeeper ready: {host}:{port}, data in {data_dir}")
        process.wait()
        raise click.ClickException(f"ZooKeeper ended by itself; {data_dir / 'zookeeper.log'} says why")
    except KeyboardInterrupt:
        click.echo("moldau zookeeper stopped")
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except Exception:
            process.kill()


def _java_and_jars() -> tuple[str, Path]:
    from importlib.util import find_spec

    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise click.ClickException("ZooKeeper comes with PySpark. Next: pip install 'moldau[spark]'")
    from moldau.spark.session.java import JavaNotFound, find_java

    try:
        home = find_java()
    except JavaNotFound as error:
        raise click.ClickException(str(error)) from error
    return str(Path(home.path) / "bin" / "java"), Path(spec.origin).parent / "jars"


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
