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
@click.option(
    "--keep",
    type=click.IntRange(3),
    default=3,
    show_default=True,
    metavar="N",
    help="Snapshots that stay, with the transactions since (autopurge.snapRetainCount).",
)
@click.option(
    "--purge-hours",
    type=click.IntRange(0),
    default=24,
    show_default=True,
    metavar="H",
    help="How often older ones are removed, and at the start; 0 is never (autopurge.purgeInterval).",
)
@click.option("--purge", is_flag=True, help="Remove older ones now and end; a server may run meanwhile.")
@click.option(
    "--set",
    "others",
    multiple=True,
    metavar="NAME=VALUE",
    help="Another setting of its zoo.cfg, as snapCount or preAllocSize.",
)
def zookeeper(
    port: int,
    host: str,
    data_dir: Path,
    tick_ms: int,
    keep: int,
    purge_hours: int,
    purge: bool,
    others: tuple[str, ...],
) -> None:
    """Run the ZooKeeper that comes with PySpark until Ctrl-C or SIGTERM; it needs Java.

    One server is for trying things out: a cluster that must survive the loss of a machine has an ensemble of
    three.

    \b
    Examples:
      moldau zookeeper
      moldau zookeeper --keep 5 --purge-hours 1 --set snapCount=10000
      moldau zookeeper --purge
      moldau up --brokers 3 --zookeeper 127.0.0.1:2181
      moldau broker --config server0.properties
    """
    from moldau.cluster.store.zookeeper import server

    settings = {"autopurge.snapRetainCount": keep, "autopurge.purgeInterval": purge_hours, **_pairs(others)}
    java, jars = _java_and_jars()
    if purge:
        _purge(java, jars, data_dir, keep)
        return
    port = port or server.free_port()
    if server.answers(port, host):
        raise click.ClickException(
            f"a ZooKeeper answers at {host}:{port} already. Next: choose another --port"
        )
    try:
        config = server.write_config(data_dir, port, host=host, tick_ms=tick_ms, others=settings)
        command = server.server_command(java, jars, config)
    except OSError as error:
        raise click.ClickException(
            f"{data_dir} cannot be used: {error.strerror}. Next: choose another --data-dir"
        ) from error
    except server.ZooKeeperNotFound as error:
        raise click.ClickException(str(error)) from error
    _run(command, data_dir, host, port)


def _run(command: list[str], data_dir: Path, host: str, port: int) -> None:
    """Until it is interrupted, or the server ends by itself."""
    from moldau.cluster.store.zookeeper import server

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


def _pairs(words: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals or "\n" in word:
            raise click.BadParameter(f"{word!r} is not NAME=VALUE", param_hint="--set")
        pairs[name] = value
    return pairs


def _purge(java: str, jars: Path, data_dir: Path, keep: int) -> None:
    import subprocess

    from moldau.cluster.store.zookeeper import server

    files = data_dir / "data" / "version-2"
    if not files.is_dir():
        raise click.ClickException(f"{data_dir} has no data of a ZooKeeper. Next: name it with --data-dir")
    before = len(list(files.iterdir()))
    try:
        command = server.purge_command(java, jars, data_dir, keep)
    except server.ZooKeeperNotFound as error:
        raise click.ClickException(str(error)) from error
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"nothing was removed: {done.stderr.strip()[-500:]}")
    click.echo(f"{before - len(list(files.iterdir()))} file(s) removed, {keep} snapshots kept in {files}")


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
