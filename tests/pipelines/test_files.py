"""Files of Python: steps and datasets are found, mistakes are told with their line."""

import sys
from pathlib import Path

import pytest

from moldau.pipelines import to_console, to_parquet, to_topic
from moldau.pipelines.definitions import ConsoleOutput, ParquetOutput, TopicOutput
from moldau.pipelines.errors import PipelineError
from moldau.pipelines.files import load
from moldau.pipelines.templates import example

FILE = """
from dataclasses import dataclass
from os.path import join  # a function of another module is no dataset
from moldau.pipelines import to_console, to_parquet, to_topic

@dataclass
class Price:
    value: float

def words(context):
    return 1

@to_topic("counts", key="word", value_format="json", mode="update", kafka_compression_type="zstd")
def counts(context):
    return 2

@to_parquet("table", partition_by=("day", "hour"))
def table(context):
    return 3

@to_console(rows=5)
def shown(context):
    return 4
"""


@pytest.fixture(autouse=True)
def path_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_steps_and_datasets(tmp_path: Path) -> None:
    path = tmp_path / "revenue.py"
    path.write_text(FILE)
    pipeline = load(path)
    assert pipeline.name == "revenue"
    assert [(step.name, step.output) for step in pipeline.steps] == [
        (
            "counts",
            TopicOutput("counts", "word", "json", "update", options={"kafka_compression_type": "zstd"}),
        ),
        ("table", ParquetOutput("table", ("day", "hour"))),
        ("shown", ConsoleOutput(rows=5)),
    ]
    assert "join" not in pipeline.datasets
    assert pipeline.datasets["words"](None) == 1
    assert pipeline.query_name("counts") == "revenue-counts"
    assert not [name for name in sys.modules if name.startswith("moldau_pipeline_")]
    assert load(path, "other").query_name("counts") == "other-counts"


@pytest.mark.parametrize("sql", [False, True])
def test_the_example_is_a_pipeline(tmp_path: Path, sql: bool) -> None:
    path = tmp_path / f"first.{'sql' if sql else 'py'}"
    path.write_text(example("first", sql=sql))
    pipeline = load(path)
    (step,) = pipeline.steps
    assert step.output == TopicOutput("first-counts", "word", "json", "update", "1 second")
    assert "words" in pipeline.datasets


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "p.py writes nothing: decorate a function"),
        ("def f(:\n", "p.py:1: "),
        ("\n\n1 / 0\n", "p.py:3: ZeroDivisionError: division by zero"),
        ("import nothing_like_this\n", "p.py:1: ModuleNotFoundError: No module named 'nothing_like_this'"),
        (
            "from moldau.pipelines import to_topic\n\n@to_topic('x', mode='often')\ndef f(c): ...\n",
            "p.py:3: to_topic: mode is one of append, update, complete, not 'often'",
        ),
        (
            "from moldau.pipelines import to_topic\n@to_topic('x')\n@to_topic('y')\ndef f(c): ...\n",
            "p.py:2: f has two outputs",
        ),
    ],
)
def test_mistakes_are_told_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.py"
    path.write_text(text)
    with pytest.raises(PipelineError) as told:
        load(path)
    assert message in str(told.value)


def test_what_is_no_pipeline(tmp_path: Path) -> None:
    with pytest.raises(
        PipelineError, match=r"there is no file .*nowhere\.py: 'moldau pipeline init nowhere'"
    ):
        load(tmp_path / "nowhere.py")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(PipelineError, match=r"notes\.txt is no pipeline"):
        load(tmp_path / "notes.txt")
    (tmp_path / "latin.py").write_bytes(b"x = '\xe9'")
    with pytest.raises(PipelineError, match="no text in UTF-8"):
        load(tmp_path / "latin.py")
    (tmp_path / "my file.py").write_text(FILE)
    with pytest.raises(PipelineError, match="cannot be the name of a pipeline"):
        load(tmp_path / "my file.py")


def test_decorators_refuse_what_cannot_be() -> None:
    for wrong in (
        lambda: to_topic(""),
        lambda: to_topic("t", value_format="xml"),
        lambda: to_parquet(""),
        lambda: to_parquet("t", mode="update"),
        lambda: to_console(mode="never"),
    ):
        with pytest.raises(PipelineError):
            wrong()
