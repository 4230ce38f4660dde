"""Where pipelines keep what they know: one directory for each, below one home.

    <home>/<pipeline>/state.json      what runs, how it does, and what went wrong last
                      log.txt         what the pipeline and Spark have said
                      lock            held by the process that runs it
                      checkpoints/    Spark's, one for each step
                      begun-anew.json how often each step was begun from scratch
                      queries.json    which topics each checkpoint was made with
                      tables/         Parquet directories with relative names

Invariant: only the process that holds the lock writes. A file is replaced whole or not at all. Whether a
pipeline runs is told by the lock, never by a number in a file: a process that died holds nothing.
"""

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moldau.pipelines.definitions import check_name
from moldau.pipelines.errors import PipelineError
from moldau.spark.query.progress import FAILED, RUNNING, STARTING, STOPPED, QueryStatus

#: Beside the states of a query: the process is gone and has not said why.
DIED = "died"


@dataclass(frozen=True, slots=True)
class PipelineState:
    """A pipeline at a moment, as its own process has written it."""

    name: str
    file: str
    state: str = STARTING
    pid: int = 0
    master: str = ""
    bootstrap_servers: str = ""
    started: str = ""
    queries: tuple[QueryStatus, ...] = ()
    #: What each step writes to.
    outputs: Mapping[str, str] | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "file": self.file,
            "state": self.state,
            "pid": self.pid,
            "master": self.master,
            "bootstrap_servers": self.bootstrap_servers,
            "started": self.started,
            "queries": [query.to_json() for query in self.queries],
            "outputs": dict(self.outputs or {}),
            "error": self.error,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "PipelineState":
        known = {name: given[name] for name in cls.__dataclass_fields__ if name in given}
        queries = tuple(QueryStatus.from_json(each) for each in given.get("queries", ()))
        return cls(**{**known, "queries": queries})


def home_directory(given: str | os.PathLike[str] | None = None) -> Path:
    """The directory of all pipelines: what is given, MOLDAU_HOME, or one below the user's own."""
    chosen = given or os.environ.get("MOLDAU_HOME")
    return Path(chosen).expanduser().absolute() if chosen else Path.home() / ".moldau" / "pipelines"


class PipelineDirectory:
    """The directory of one pipeline."""

    def __init__(self, home: str | os.PathLike[str], name: str, checkpoints: str | None = None) -> None:
        self.name = check_name(name)
        self.directory = Path(home) / name
        self.state_path = self.directory / "state.json"
        self.log_path = self.directory / "log.txt"
        self._checkpoints = checkpoints
        self._queries_path = self.directory / "queries.json"
        self._anew_path = self.directory / "begun-anew.json"

    @property
    def exists(self) -> bool:
        return self.state_path.exists()

    def checkpoint(self, step: str) -> str:
        """A directory, or an address below the one that was given."""
        count = self._times_begun_anew().get(step, 0)
        place = f"{step}~{count}" if count else step
        if self._checkpoints is not None:
            return f"{self._checkpoints.rstrip('/')}/{self.name}/{place}"
        return str(self.directory / "checkpoints" / place)

    def table(self, path: str) -> str:
        """Where a Parquet directory lies; an address with a scheme stays as it is."""
        if "://" in path or os.path.isabs(path):
            return path
        return str(self.directory / "tables" / path)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Held while the pipeline runs; PipelineError where another process runs it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with open(self.directory / "lock", "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                state = self.state()
                who = f" (process {state.pid})" if state is not None and state.pid else ""
                raise PipelineError(
                    f"pipeline {self.name} runs already{who}: 'moldau pipeline stop {self.name}' ends it"
                ) from None
            yield

    def is_running(self) -> bool:
        try:
            with open(self.directory / "lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def state(self) -> PipelineState | None:
        """What was written last; None where nothing was. A process that is gone is not said to run."""
        try:
            found = PipelineState.from_json(json.loads(self.state_path.read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise PipelineError(f"{self.state_path} cannot be read: {error}; remove it") from None
        if found.state not in (STOPPED, FAILED) and not self.is_running():
            queries = tuple(replace(q, state=q.state if q.ended else DIED) for q in found.queries)
            return replace(found, state=DIED, queries=queries)
        return found

    def write_state(self, state: PipelineState) -> None:
        _replace(self.state_path, json.dumps(state.to_json(), indent=1))

    def check_topics(self, step: str, topics: Sequence[str]) -> None:
        """A checkpoint holds offsets of topics: with others it means nothing."""
        known = self._known_queries()
        before = known.get(step)
        if before is not None and before != list(topics) and self._has_checkpoint(step):
            raise PipelineError(
                f"the checkpoint of {step} belongs to a query that reads {_listed(before)}, and now it reads "
                f"{_listed(topics)}. Give the function another name, or begin anew with --from-scratch"
            )
        _replace(self._queries_path, json.dumps({**known, step: list(topics)}))

    def forget_checkpoints(self) -> None:
        """The next run begins anew."""
        shutil.rmtree(self.directory / "checkpoints", ignore_errors=True)
        self._begin_anew(self._known_queries())

    def notice_removed_checkpoints(self) -> list[str]:
        """Steps that were run, and whose checkpoints someone has removed: these begin anew as well."""
        if self._checkpoints is not None:
            return []
        removed = [s for s in self._known_queries() if not os.path.exists(f"{self.checkpoint(s)}/metadata")]
        self._begin_anew(removed)
        return removed

    def _begin_anew(self, steps: Iterable[str]) -> None:
        """Checkpoints with other names.

        What was written exactly once is known by its checkpoint: under the old name a new beginning would be
        taken for batches that are there already.
        """
        steps = list(steps)
        if steps:
            counts = self._times_begun_anew()
            _replace(self._anew_path, json.dumps(counts | {step: counts.get(step, 0) + 1 for step in steps}))
            kept = {step: topics for step, topics in self._known_queries().items() if step not in steps}
            _replace(self._queries_path, json.dumps(kept))

    def _times_begun_anew(self) -> dict[str, int]:
        return json.loads(self._anew_path.read_text()) if self._anew_path.exists() else {}

    def _known_queries(self) -> dict[str, list[str]]:
        return json.loads(self._queries_path.read_text()) if self._queries_path.exists() else {}

    def query_id(self, step: str) -> str | None:
        """The id of a step's query, which Spark keeps in its checkpoint; None where that is not a directory.

        A new query is given one here, so that its readers know it before it runs.
        """
        if self._checkpoints is not None:
            return None
        path = Path(self.checkpoint(step)) / "metadata"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, json.dumps({"id": str(uuid.uuid4())}))
        try:
            return str(json.loads(path.read_text())["id"])
        except (ValueError, LookupError, TypeError):
            return None  # Spark itself says what is wrong with it

    def _has_checkpoint(self, step: str) -> bool:
        return self._checkpoints is not None or os.path.isdir(os.path.join(self.checkpoint(step), "offsets"))


def known_pipelines(home: Path) -> list[PipelineState]:
    """Every pipeline that was run under a home."""
    if not home.is_dir():
        return []
    homes = [
        PipelineDirectory(home, each.name)
        for each in sorted(home.iterdir())
        if (each / "state.json").exists()
    ]
    return [state for each in homes if (state := each.state()) is not None]


def is_up(state: PipelineState) -> bool:
    return state.state in (STARTING, RUNNING)


def _listed(topics: Sequence[str]) -> str:
    return ", ".join(topics) or "no topic"


def _replace(path: Path, text: str) -> None:
    beside = path.with_suffix(".new")
    beside.write_text(text)
    os.replace(beside, path)
