"""Spark Declarative Pipelines: a spec in YAML beside files of definitions, run by ``spark-pipelines``.

    name: shop
    libraries:
      - glob:
          include: transformations/**

Spark needs a directory for checkpoints, forgets its tables between runs unless it has a catalogue on disk,
and ignores settings of its start that stand in a spec. So a completed copy of the spec is written to the
pipeline's directory, and ``spark-pipelines`` is given the copy.

Invariant: what the spec or the user says wins over these defaults. Definitions are read by Spark, never
here. Every process that was started here is ended here.
"""

import os
import re
import select
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec as find_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from moldau.pipelines.declarative_failures import failure_in
from moldau.pipelines.definitions import check_name
from moldau.pipelines.directory import PipelineDirectory, PipelineState
from moldau.pipelines.errors import PipelineError
from moldau.pipelines.running import RunOptions, now
from moldau.spark.query.failures import sentence
from moldau.spark.query.progress import FAILED, RUNNING, STOPPED
from moldau.spark.session.create import recommended_settings, with_java_options
from moldau.spark.session.interpreter import worker_python
from moldau.spark.session.java import find_java

#: The files that Spark itself looks for in a directory.
SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
SUFFIXES = (".yml", ".yaml")
#: Modules that ``spark-pipelines`` imports, and the packages that bring them.
_NEEDED = {
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.rpc": "googleapis-common-protos",
    "zstandard": "zstandard",
    "yaml": "PyYAML",
}
_EVENT = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: (.*)$")
_POLL_SECONDS = 0.2
_TERMINATION_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class DeclaredPipeline:
    """A spec: its name, its file, and the fields of it."""

    name: str
    path: Path
    fields: Mapping[str, Any]


def find_spec(given: Path) -> Path | None:
    """The spec that a path means: a YAML file, or the spec of a directory; None for anything else."""
    if given.is_dir():
        return next((given / name for name in SPEC_NAMES if (given / name).is_file()), None)
    return given if given.suffix in SUFFIXES and given.is_file() else None


def load_spec(path: Path, name: str | None = None) -> DeclaredPipeline:
    """Reads a spec; PipelineError says what is wrong with it, or what has to be installed."""
    if missing := [package for module, package in _NEEDED.items() if not _is_installed(module)]:
        raise PipelineError(
            f"Spark Declarative Pipelines need {', '.join(missing)}, which is not installed: "
            "pip install 'moldau[spark]'"
        )
    import yaml

    try:
        fields = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path.name} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(fields, dict) or not _has_libraries(fields):
        raise PipelineError(
            f"{path.name} is no spec of a pipeline: it lists its files under libraries, such as "
            "'- glob: {include: transformations/**}'"
        )
    if not isinstance(fields.get("configuration") or {}, dict):
        raise PipelineError(f"{path.name}: configuration is no mapping of settings to values")
    called = name or fields.get("name") or path.absolute().parent.name
    return DeclaredPipeline(check_name(str(called)), path.absolute(), fields)


def run_declared(
    pipeline: DeclaredPipeline,
    options: RunOptions,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    on_event: Callable[[str], None] = lambda event: None,
) -> None:
    """Processes what is there, then ends; ``on_event`` gets each event that Spark reports about a flow."""
    directory = PipelineDirectory(options.home, pipeline.name)
    state = PipelineState(
        pipeline.name,
        str(pipeline.path),
        pid=os.getpid(),
        master=_master(options),
        bootstrap_servers=options.bootstrap_servers,
        started=now(),
    )

    def note_start(event: str) -> None:
        if event.startswith("Starting run"):
            directory.write_state(replace(state, state=RUNNING))
        on_event(event)

    with directory.running():
        directory.write_state(state)
        try:
            _run(pipeline, options, directory.path, "run", should_stop, note_start)
        except BaseException as error:
            ended = STOPPED if isinstance(error, KeyboardInterrupt) else FAILED
            message = None if ended == STOPPED else sentence(error)
            directory.write_state(replace(state, state=ended, error=message))
            raise
        directory.write_state(replace(state, state=STOPPED))


def check_declared(
    pipeline: DeclaredPipeline, options: RunOptions, on_event: Callable[[str], None] = lambda event: None
) -> None:
    """Has Spark check every flow, in a temporary directory: nothing is read or written."""
    with TemporaryDirectory(prefix="moldau-pipeline-") as directory:
        _run(pipeline, options, Path(directory), "dry-run", lambda: False, on_event)


def command(options: RunOptions, spec: Path, action: str) -> list[str]:
    """The command line; what Spark calls a master elsewhere, ``spark-pipelines`` calls a remote."""
    import pyspark

    script = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    refresh = ["--full-refresh-all"] if options.from_scratch and action == "run" else []
    return [str(script), "--remote", _master(options), action, "--spec", str(spec), *refresh]


def settings(pipeline: DeclaredPipeline, options: RunOptions, directory: Path) -> dict[str, str]:
    """Spark's settings at its start: what the user says, else the spec, else what fits a small machine."""
    metastore = f"jdbc:derby:;databaseName={directory / 'metastore'};create=true"
    chosen = {
        # The next run knows the tables. Derby lets only one process in, and so does the pipeline's lock.
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": metastore,
        "spark.connect.grpc.binding.address": "localhost",
        "spark.ui.showConsoleProgress": "false",
        **recommended_settings(),
    }
    written = pipeline.fields.get("configuration") or {}
    return {**chosen, **{key: str(written[key]) for key in chosen if key in written}, **options.conf}


def spec_for(pipeline: DeclaredPipeline, options: RunOptions, directory: Path) -> dict[str, Any]:
    """The spec that Spark is given: paths relative to the directory, and storage for checkpoints."""
    root = Path(os.path.relpath(pipeline.path.parent.resolve(), directory.resolve()))
    libraries = [
        {"glob": {"include": str(root / each["glob"]["include"])}} for each in pipeline.fields["libraries"]
    ]
    storage = pipeline.fields.get("storage") or f"file://{directory / 'storage'}"
    if options.checkpoints is not None:
        storage = f"{options.checkpoints.rstrip('/')}/{pipeline.name}"
    # Spark refuses a spec that sets what can only be set at its start.
    started_with = settings(pipeline, options, directory)
    written = pipeline.fields.get("configuration") or {}
    kept = {key: str(value) for key, value in written.items() if key not in started_with}
    return {
        **pipeline.fields,
        "name": pipeline.name,
        "storage": storage,
        "libraries": libraries,
        "configuration": kept,
    }


def environment(options: RunOptions, chosen: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The processes' environment: Java, Python, the cluster's address, and Spark's settings.

    Settings are not given with ``spark-pipelines --conf``, because Spark 4.3 keeps only the last ten of them.
    """
    java_home = find_java().path
    started_with = with_java_options(chosen, java_home)
    words = [word for key, value in started_with.items() for word in ("--conf", f"{key}={value}")]
    python = given.get("PYSPARK_PYTHON")
    if python in (None, worker_python("local")):
        python = worker_python(_master(options))
    return {
        **given,
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": python,
        "SPARK_API_MODE": "connect",  # without it Spark takes any master but a local one for a Connect server
        "PYSPARK_SUBMIT_ARGS": f"{shlex.join(words)} {given.get('PYSPARK_SUBMIT_ARGS', 'pyspark-shell')}",
        "MOLDAU_BOOTSTRAP_SERVERS": options.bootstrap_servers,
    }


def _run(
    pipeline: DeclaredPipeline,
    options: RunOptions,
    directory: Path,
    action: str,
    should_stop: Callable[[], bool],
    on_event: Callable[[str], None],
) -> None:
    import yaml

    if _master(options).startswith("sc://"):
        raise PipelineError(
            "a Spark Connect server has its own catalogue: run the spec there with 'spark-pipelines --remote'"
        )
    spec = directory / SPEC_NAMES[0]
    spec.write_text(yaml.safe_dump(spec_for(pipeline, options, directory), sort_keys=False), "utf-8")
    variables = environment(options, settings(pipeline, options, directory), os.environ)
    path = directory / "log.txt"
    with open(path, "ab") as log, open(path, encoding="utf-8", errors="replace") as output:
        begin = output.seek(0, os.SEEK_END)
        child = subprocess.Popen(
            command(options, spec, action), env=variables, cwd=directory, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            code = _watch(child, output, should_stop, on_event)
        finally:
            _end(child)
        if code:
            output.seek(begin)
            everything = output.read()
            failure = failure_in(everything, pipeline.path.parent, code)
            raise PipelineError(failure) from RuntimeError(everything)


def _watch(
    child: "subprocess.Popen[bytes]",
    output: IO[str],
    should_stop: Callable[[], bool],
    on_event: Callable[[str], None],
) -> int:
    """Reports events until the child ends; its exit code, or 0 when ``should_stop`` asks for the end."""
    part = ""
    while True:
        code = child.poll()
        *lines, part = (part + output.read()).split("\n")
        for line in lines:
            if (event := _EVENT.match(line)) is not None:
                on_event(event.group(1))
        if code is not None:
            return code
        if should_stop():
            return 0
        with suppress(subprocess.TimeoutExpired):
            child.wait(_POLL_SECONDS)


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Ends every process of the run, which are one group; the next run repeats what they were doing."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            for _ in range(round(_TERMINATION_SECONDS / _POLL_SECONDS)):
                select.select((), (), (), _POLL_SECONDS)
                child.poll()
                os.killpg(child.pid, 0)
        except ProcessLookupError:
            return


def _master(options: RunOptions) -> str:
    return options.master or "local[*]"


def _has_libraries(fields: Mapping[str, Any]) -> bool:
    try:
        return all(isinstance(each["glob"]["include"], str) for each in fields["libraries"])
    except (LookupError, TypeError):
        return False


def _is_installed(module: str) -> bool:
    try:
        return find_module(module) is not None
    except ModuleNotFoundError:
        return False
