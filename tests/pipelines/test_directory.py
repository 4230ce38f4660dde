"""What a pipeline keeps on disk, and who may write it."""

import json
import shutil
from pathlib import Path

import pytest

from moldau.pipelines.directory import (
    PipelineDirectory,
    PipelineState,
    home_directory,
    is_up,
    known_pipelines,
)
from moldau.pipelines.errors import PipelineError
from moldau.spark.query.progress import QueryStatus


def test_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MOLDAU_HOME", raising=False)
    assert home_directory() == tmp_path / ".moldau" / "pipelines"
    monkeypatch.setenv("MOLDAU_HOME", "/elsewhere")
    assert home_directory() == Path("/elsewhere")
    assert home_directory("~/mine") == tmp_path / "mine"


def test_places(tmp_path: Path) -> None:
    directory = PipelineDirectory(tmp_path, "p")
    assert directory.checkpoint("counts") == str(tmp_path / "p/checkpoints/counts")
    assert directory.table("t") == str(tmp_path / "p/tables/t")
    assert directory.table("/data/t") == "/data/t"
    assert directory.table("s3a://bucket/t") == "s3a://bucket/t"
    assert PipelineDirectory(tmp_path, "p", "hdfs://n/c/").checkpoint("s") == "hdfs://n/c/p/s"
    with pytest.raises(PipelineError):
        PipelineDirectory(tmp_path, "../p")


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    directory = PipelineDirectory(tmp_path, "p")
    assert directory.state() is None
    assert not directory.exists
    query = QueryStatus("p-counts", state="running", batch_id=3, lag=({"t": 5},))
    state = PipelineState("p", "/p.py", "running", 12, queries=(query,), outputs={"counts": "topic counts"})
    with directory.running():
        directory.write_state(state)
        assert directory.state() == state
        assert is_up(state)
        assert known_pipelines(tmp_path) == [state]
    # The process is gone, and has not said why.
    found = directory.state()
    assert found is not None
    assert (found.state, found.queries[0].state) == ("died", "died")
    assert not is_up(found)


def test_a_state_of_a_later_version_is_read(tmp_path: Path) -> None:
    directory = PipelineDirectory(tmp_path, "p")
    directory.path.mkdir()
    directory.state_path.write_text(
        json.dumps(
            {"name": "p", "file": "x", "state": "stopped", "new": 1, "queries": [{"name": "q", "new": 2}]}
        )
    )
    assert directory.state() == PipelineState("p", "x", "stopped", queries=(QueryStatus("q"),))
    directory.state_path.write_text("{")
    with pytest.raises(PipelineError, match="cannot be read"):
        directory.state()


def test_one_process_runs_a_pipeline(tmp_path: Path) -> None:
    directory, other = PipelineDirectory(tmp_path, "p"), PipelineDirectory(tmp_path, "p")
    assert not directory.is_running()
    with directory.running():
        directory.write_state(PipelineState("p", "x", pid=77))
        assert other.is_running()
        with (
            pytest.raises(PipelineError, match=r"p runs already \(process 77\): 'moldau pipeline stop p'"),
            other.running(),
        ):
            pass
    assert not other.is_running()


def test_a_checkpoint_belongs_to_its_topics(tmp_path: Path) -> None:
    directory = PipelineDirectory(tmp_path, "p")
    directory.path.mkdir()
    directory.check_topics("counts", ["a"])
    directory.check_topics("counts", ["b"])  # no checkpoint was made yet
    (Path(directory.checkpoint("counts")) / "offsets").mkdir(parents=True)
    directory.check_topics("counts", ["b"])
    with pytest.raises(PipelineError, match="belongs to a query that reads b, and now it reads a, c"):
        directory.check_topics("counts", ["a", "c"])
    directory.check_topics("other", ["a"])
    directory.forget_checkpoints()
    directory.check_topics("counts", ["a", "c"])
    # A new beginning has a name of its own, here and elsewhere.
    assert directory.checkpoint("counts") == str(tmp_path / "p/checkpoints/counts~1")
    assert PipelineDirectory(tmp_path, "p", "hdfs://n").checkpoint("counts") == "hdfs://n/p/counts~1"


def test_a_checkpoint_that_someone_removed(tmp_path: Path) -> None:
    directory = PipelineDirectory(tmp_path, "p")
    directory.path.mkdir()
    assert directory.notice_removed_checkpoints() == []
    for step in ("counts", "table"):
        directory.query_id(step)
        directory.check_topics(step, ["t"])
    assert directory.notice_removed_checkpoints() == []
    shutil.rmtree(directory.checkpoint("counts"))
    assert directory.notice_removed_checkpoints() == ["counts"]
    assert directory.checkpoint("counts").endswith("counts~1")
    assert directory.checkpoint("table").endswith("table")
    assert directory.notice_removed_checkpoints() == []


def test_a_query_keeps_its_id(tmp_path: Path) -> None:
    directory = PipelineDirectory(tmp_path, "p")
    made = directory.query_id("counts")
    assert made is not None
    assert directory.query_id("counts") == made
    assert directory.query_id("other") != made
    assert PipelineDirectory(tmp_path, "p", "hdfs://n").query_id("counts") is None
    (Path(directory.checkpoint("counts")) / "metadata").write_text("{")
    assert directory.query_id("counts") is None


def test_nothing_was_run(tmp_path: Path) -> None:
    assert known_pipelines(tmp_path / "nowhere") == []
    (tmp_path / "junk").mkdir()
    assert known_pipelines(tmp_path) == []
