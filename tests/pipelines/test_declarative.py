"""Spark Declarative Pipelines: specs as values, and the example on a real Spark, twice."""

import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from moldau.cli.commands.programs.pipeline import pipeline
from moldau.cli.commands.programs.pipeline_run import find_file
from moldau.pipelines import declarative
from moldau.pipelines.declarative import (
    command,
    environment,
    find_spec,
    load_spec,
    run_declared,
    settings,
    spec_for,
)
from moldau.pipelines.declarative_failures import failure_in
from moldau.pipelines.directory import PipelineDirectory
from moldau.pipelines.errors import PipelineError
from moldau.pipelines.running import RunOptions
from moldau.spark import JavaNotFound, find_java
from moldau.testing import Broker

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "declarative"
SPEC = "name: shop\nlibraries:\n  - glob:\n      include: transformations/**\n"


def written(directory: Path, text: str = SPEC) -> Path:
    path = directory / "spark-pipeline.yml"
    path.write_text(text)
    return path


# Specs.


def test_a_spec_is_a_yaml_file_or_lies_in_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_spec(tmp_path) is None
    path = written(tmp_path)
    (tmp_path / "other.yaml").write_text(SPEC)
    (tmp_path / "p.py").touch()
    assert find_spec(tmp_path) == path
    assert find_spec(path) == path
    assert find_spec(tmp_path / "other.yaml") == tmp_path / "other.yaml"
    assert find_spec(tmp_path / "p.py") is None
    assert find_spec(tmp_path / "missing.yml") is None
    assert find_file(str(tmp_path), tmp_path / "home") == path
    monkeypatch.chdir(tmp_path)
    assert find_file("p", tmp_path / "home") == Path("p.py")


def test_a_spec_gives_the_name(tmp_path: Path) -> None:
    assert load_spec(written(tmp_path)).name == "shop"
    assert load_spec(written(tmp_path), "other").name == "other"
    (tmp_path / "bare").mkdir()
    assert load_spec(written(tmp_path / "bare", "libraries: []")).name == "bare"
    assert load_spec(EXAMPLE / "spark-pipeline.yml").name == "shop"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "spark-pipeline.yml is no YAML: .*line 1"),
        ("- a", "is no spec of a pipeline: it lists its files under libraries"),
        ("name: a\nlibraries: [transformations]", "is no spec of a pipeline"),
        ("libraries: []\nconfiguration: [a]", "configuration is no mapping"),
        ("name: a/b\nlibraries: []", "a/b"),
    ],
)
def test_a_spec_that_is_none_is_told(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message) as told:
        load_spec(written(tmp_path, text))
    assert "\n" not in str(told.value)


def test_packages_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = {"no_such_module": "grpcio-status", "no_such.module": "zstandard", "yaml": "PyYAML"}
    monkeypatch.setattr(declarative, "_NEEDED", needed)
    with pytest.raises(
        PipelineError, match=r"need grpcio-status, zstandard, .*pip install 'moldau\[spark\]'"
    ):
        load_spec(written(tmp_path))


def test_spark_is_given_a_spec_with_a_place_for_everything(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    home = tmp_path / "home" / "shop"
    home.mkdir(parents=True)
    loaded = load_spec(written(tmp_path / "project", SPEC + "catalog: spark_catalog\n"))
    given = spec_for(loaded, RunOptions(home=tmp_path), home)
    assert given == {
        "name": "shop",
        "catalog": "spark_catalog",
        "storage": f"file://{home}/storage",
        "libraries": [{"glob": {"include": "../../project/transformations/**"}}],
        "configuration": {},
    }
    there = RunOptions(home=tmp_path, checkpoints="hdfs://name/checkpoints/")
    assert spec_for(loaded, there, home)["storage"] == "hdfs://name/checkpoints/shop"


def test_what_the_spec_and_the_user_say_wins(tmp_path: Path) -> None:
    said = "storage: s3a://b/shop\nconfiguration:\n  spark.sql.warehouse.dir: s3a://b/tables\n  my.own: 1\n"
    loaded = load_spec(written(tmp_path, SPEC + said))
    options = RunOptions(home=tmp_path, conf={"spark.sql.catalogImplementation": "in-memory"})
    given = spec_for(loaded, options, tmp_path)
    # What Spark has to know at its start is told to it then, and only then.
    assert (given["storage"], given["configuration"]) == ("s3a://b/shop", {"my.own": "1"})
    chosen = settings(loaded, options, tmp_path)
    assert chosen["spark.sql.warehouse.dir"] == "s3a://b/tables"
    assert chosen["spark.sql.catalogImplementation"] == "in-memory"
    assert f"{tmp_path}/metastore" in chosen["spark.hadoop.javax.jdo.option.ConnectionURL"]


def test_the_command() -> None:
    spec = Path("/home/shop/spark-pipeline.yml")
    script, *words = command(RunOptions(), spec, "dry-run")
    assert Path(script).is_file()
    assert words == ["--remote", "local[*]", "dry-run", "--spec", str(spec)]
    anew = RunOptions(master="spark://host:7077", from_scratch=True)
    assert command(anew, spec, "run")[1:] == [
        *("--remote", "spark://host:7077", "run", "--spec", str(spec), "--full-refresh-all"),
    ]
    assert command(anew, spec, "dry-run")[-1] == str(spec)


def test_the_environment() -> None:
    try:
        java = str(find_java().path)
    except JavaNotFound as missing:
        pytest.skip(str(missing))
    options = RunOptions("broker:9092")
    found = environment(options, {"a": "b c"}, {"PATH": "/bin"})
    assert (found["PATH"], found["JAVA_HOME"]) == ("/bin", java)
    assert (found["MOLDAU_BOOTSTRAP_SERVERS"], found["SPARK_API_MODE"]) == ("broker:9092", "connect")
    assert os.access(found["PYSPARK_PYTHON"], os.X_OK)
    words = shlex.split(found["PYSPARK_SUBMIT_ARGS"])
    assert (words[:2], words[-1]) == (["--conf", "a=b c"], "pyspark-shell")
    given = {"PYSPARK_PYTHON": "/other/python", "PYSPARK_SUBMIT_ARGS": "--packages x pyspark-shell"}
    found = environment(options, {}, given)
    assert found["PYSPARK_PYTHON"] == "/other/python"
    assert found["PYSPARK_SUBMIT_ARGS"].split()[-3:] == ["--packages", "x", "pyspark-shell"]


def test_options_that_have_no_place_are_refused(tmp_path: Path) -> None:
    path = str(written(tmp_path))
    for option, message in ((["--option", "a=b"], "into its files"), (["--metrics-port", "0"], "no metrics")):
        told = CliRunner().invoke(pipeline, ["run", path, "--home", str(tmp_path), *option])
        assert (told.exit_code, message in told.output) == (2, True), told.output
    with pytest.raises(PipelineError, match="a Spark Connect server has its own catalogue"):
        run_declared(load_spec(Path(path)), RunOptions(home=tmp_path, master="sc://host"))
    state = PipelineDirectory(tmp_path, "shop").state()
    assert state is not None
    assert state.state == "failed"


# Failures, as spark-pipelines has told them.

RESOLVING = """
2026-11-17 03:40:23: Failed to resolve flow due to upstream failure: 'spark_catalog.default.revenue'.
Error: Failed to read dataset 'spark_catalog.default.orders'. Dataset is defined but could not be resolved.
2026-11-17 03:40:23: Failed to resolve flow: 'spark_catalog.default.orders'.
Error: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `produkt` cannot be resolved. SQLSTATE: 42703;
'Project ['produkt, price#4, _partition#7, _offset#8L]

Traceback (most recent call last):
  File "cli.py", line 450, in <module>
    main()
pyspark.errors.exceptions.connect.AnalysisException:
Failed to resolve flows in the pipeline.
"""
RUNNING = """
2026-11-17 03:39:15: Flow 'spark_catalog.default.orders' has FAILED more than 2 times and is not restarted.
Error: [STREAM_FAILED] Query [id = d] terminated with exception: [X] No: Traceback (most recent call last):
  File "listing.py", line 56, in _topics
    raise KafkaError(
moldau.protocol.errors.KafkaError: UNKNOWN_TOPIC_OR_PARTITION: topic 'nowhere' does not exist
 SQLSTATE: 38000 SQLSTATE: XXKST
2026-11-17 03:39:15: Flow 'spark_catalog.default.revenue' SKIPPED due to upstream failure(s).
Traceback (most recent call last):
  File "cli.py", line 450, in <module>
    main()
"""
DEFINING = """2026-11-17 03:39:53: Importing /p/home/shop/../../project/transformations/orders.py...
Traceback (most recent call last):
  File "cli.py", line 450, in <module>
    main()
  File "/p/home/shop/../../project/transformations/orders.py", line 29, in <module>
    raise KeyError("gone")
KeyError: 'gone'
"""
TAKEN = """java.net.BindException: Failed to bind to address localhost/127.0.0.1:15002: Service
Traceback (most recent call last):
: java.net.BindException: Failed to bind to address 0.0.0.0/0.0.0.0:15002: Service \
'org.apache.spark.sql.connect.service.SparkConnectService' failed after 0 retries (starting from 15002)!
"""
REFUSED = """WARNING: Using incubator modules: jdk.incubator.vector
Exception in thread "main" org.apache.spark.SparkException: Remote cannot be specified with master.
	at org.apache.spark.deploy.SparkSubmitArguments.error(SparkSubmitArguments.scala:670)
"""


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            RESOLVING,
            "flow orders failed: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `produkt` cannot be resolved",
        ),
        (RUNNING, "flow orders failed: UNKNOWN_TOPIC_OR_PARTITION: topic 'nowhere' does not exist"),
        (DEFINING, "orders.py:29: KeyError: 'gone'"),
        (REFUSED, "Remote cannot be specified with master."),
        ("", "spark-pipelines has ended with code 3"),
    ],
)
def test_a_failure_is_one_sentence(said: str, sentence: str) -> None:
    assert failure_in(said, Path("/p/project"), 3) == sentence


def test_a_port_that_is_taken_is_told_with_what_to_do() -> None:
    assert "port 15002" in failure_in(TAKEN, Path("/p"), 1)
    assert "start this one when that is over" in failure_in(TAKEN, Path("/p"), 1)


# The example.


def order(broker: Broker, product: str, price: float, partition: int) -> None:
    value = json.dumps({"product": product, "price": price})
    broker.produce("orders", value.encode(), partition=partition)


def rows(table: Path) -> list[dict[str, object]]:
    from pyarrow.parquet import read_table

    found: list[dict[str, object]] = read_table(table).to_pylist()
    return found


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_example_goes_on_where_it_ended(broker: Broker, tmp_path: Path) -> None:
    try:
        find_java()
    except JavaNotFound as missing:
        pytest.skip(str(missing))

    def run(what: str) -> str:
        arguments = [
            "run",
            what,
            "-b",
            broker.bootstrap_servers,
            "--home",
            str(tmp_path),
            "--master",
            "local[2]",
        ]
        small = {
            "spark.driver.memory": "600m",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.codegen.wholeStage": "false",
        }
        settings_given = [word for key, value in small.items() for word in ("--conf", f"{key}={value}")]
        done = subprocess.run(
            [sys.executable, "-m", "moldau", "pipeline", *arguments, *settings_given],
            # Spark Connect takes a port that is free, for tests that run side by side.
            env={**os.environ, "SPARK_TESTING": "yes"},
            capture_output=True,
            text=True,
            timeout=190,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    broker.create_topic("orders", partitions=2)
    order(broker, "tea", 5.0, 0)
    order(broker, "tea", 12.5, 1)
    order(broker, "cup", 20.0, 0)
    said = run(str(EXAMPLE))
    assert "Flow orders has COMPLETED" in said
    assert "pipeline shop has processed what was there" in said
    assert Counter(record.value for record in broker.records("large-orders")) == {
        b'{"product":"tea","price":12.5}': 1,
        b'{"product":"cup","price":20}': 1,
    }
    order(broker, "cup", 30.0, 1)
    order(broker, "pot", 1.0, 1)
    run("shop")
    # Only what was new has come: every record is there once, in the table and in the topic.
    home = tmp_path / "shop"
    places = Counter((row["_partition"], row["_offset"]) for row in rows(home / "warehouse" / "orders"))
    assert places == {(0, 0): 1, (0, 1): 1, (1, 0): 1, (1, 1): 1, (1, 2): 1}
    large = broker.records("large-orders")
    assert Counter((record.key, json.loads(record.value or b"")["price"]) for record in large) == {
        (b"tea", 12.5): 1,
        (b"cup", 20.0): 1,
        (b"cup", 30.0): 1,
    }
    totals = {row["product"]: (row["orders"], row["total"]) for row in rows(home / "warehouse" / "revenue")}
    assert totals == {"tea": (2, 17.5), "cup": (2, 50.0), "pot": (1, 1.0)}
    # Both runs were one query to the sink, however Spark has spelled its checkpoint (file:/ and then file:///).
    assert len({record.key for record in broker.records("__moldau_decisions")}) == 1
    assert yaml.safe_load((home / "spark-pipeline.yml").read_text())["name"] == "shop"
    # It is seen beside the others.
    (state,) = json.loads(CliRunner().invoke(pipeline, ["list", "--json", "--home", str(tmp_path)]).stdout)
    assert (state["name"], state["state"], state["error"]) == ("shop", "stopped", None)
    shown = CliRunner().invoke(pipeline, ["logs", "shop", "-n", "1000", "--home", str(tmp_path)]).stdout
    assert "Run is COMPLETED" in shown
