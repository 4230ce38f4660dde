"""Where pipelines keep their state: one directory for each, below one home directory.

    <home>/<pipeline>/state.json      which queries run, how far they are, and the last error
                      log.txt         the logs of the pipeline and of Spark
                      lock            locked by the process that runs it
                      checkpoints/    Spark's, one for each step
                      begun-anew.json how often each step was started from scratch
                      queries.json    which topics each checkpoint was made with
                      tables/         Parquet directories with relative names

Invariant: only the process that has the lock writes. A file is replaced whole or not at all. Whether a
pipeline runs is decided by the lock, never by a process id in a file: a process that died has no lock.
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
    """A pipeline at a moment, as its own process wrote it."""

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
        self.path = Path(home) / name
        self.state_path = self.path / "state.json"
        self.log_path = self.path / "log.txt"
        self._checkpoints = checkpoints
        self._queries_path = self.path / "queries.json"
        self._restarts_path = self.path / "begun-anew.json"

    @property
    def exists(self) -> bool:
        return self.state_path.exists()

    def checkpoint(self, step: str) -> str:
        """A directory, or an address below the one that was given."""
        count = self._restarts().get(step, 0)
        name = f"{step}~{count}" if count else step
        if self._checkpoints is not None:
            return f"{self._checkpoints.rstrip('/')}/{self.name}/{name}"
        return str(self.path / "checkpoints" / name)

    def table(self, path: str) -> str:
        """The path of a Parquet directory; an address with a scheme stays as it is."""
        if "://" in path or os.path.isabs(path):
            return path
        return str(self.path / "tables" / path)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Locks the directory while the pipeline runs; PipelineError where another process runs it."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / "lock", "a") as lock:
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
            with open(self.path / "lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def state(self) -> PipelineState | None:
        """The state that was written last, None without one; DIED where its process is gone."""
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
        """Refuses a checkpoint that was made with other topics: it consists of their offsets."""
        known = self._known_queries()
        before = known.get(step)
        if before is not None and before != list(topics) and self._has_checkpoint(step):
            raise PipelineError(
                f"the checkpoint of {step} belongs to a query that reads {_listed(before)}, and now it reads "
                f"{_listed(topics)}. Give the function another name, or begin anew with --from-scratch"
            )
        _replace(self._queries_path, json.dumps({**known, step: list(topics)}))

    def forget_checkpoints(self) -> None:
        """The next run starts from scratch."""
        shutil.rmtree(self.path / "checkpoints", ignore_errors=True)
        self._start_over(self._known_queries())

    def notice_removed_checkpoints(self) -> list[str]:
        """Steps that have run and whose checkpoints someone has removed: these start from scratch, too."""
        if self._checkpoints is not None:
            return []
        removed = [s for s in self._known_queries() if not os.path.exists(f"{self.checkpoint(s)}/metadata")]
        self._start_over(removed)
        return removed

    def _start_over(self, steps: Iterable[str]) -> None:
        """Gives the checkpoints of these steps new names.

        Exactly-once sinks know a batch by the name of its checkpoint and its number: under the old name they
        would take the first batches of a new start for batches that they have written already.
        """
        steps = list(steps)
        if steps:
            counts = self._restarts()
            counts |= {step: counts.get(step, 0) + 1 for step in steps}
            _replace(self._restarts_path, json.dumps(counts))
            kept = {step: topics for step, topics in self._known_queries().items() if step not in steps}
            _replace(self._queries_path, json.dumps(kept))

    def _restarts(self) -> dict[str, int]:
        """How often each step was started from scratch."""
        return json.loads(self._restarts_path.read_text()) if self._restarts_path.exists() else {}

    def _known_queries(self) -> dict[str, list[str]]:
        return json.loads(self._queries_path.read_text()) if self._queries_path.exists() else {}

    def query_id(self, step: str) -> str | None:
        """The id of a step's query, which Spark keeps in its checkpoint; None for a remote checkpoint.

        A new query gets its id here, because its readers need it before the query runs.
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
    """Every pipeline that was run with this home directory."""
    if not home.is_dir():
        return []
    names = [each.name for each in sorted(home.iterdir()) if (each / "state.json").exists()]
    states = [PipelineDirectory(home, name).state() for name in names]
    return [state for state in states if state is not None]


def is_up(state: PipelineState) -> bool:
    return state.state in (STARTING, RUNNING)


def _listed(topics: Sequence[str]) -> str:
    return ", ".join(topics) or "no topic"


def _replace(path: Path, text: str) -> None:
    beside = path.with_suffix(".new")
    beside.write_text(text)
    os.replace(beside, path)
