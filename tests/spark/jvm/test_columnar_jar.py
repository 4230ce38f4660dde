"""The jar of our classes for Spark's JVM: made once, and never in anybody's way."""

import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from moldau.spark import JavaNotFound, find_java
from moldau.spark.jvm import columnar_jar

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="shared memory of this kind is Linux's")

JAVA = Path("java")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("MOLDAU_SPARK_COLUMNAR", raising=False)
    return tmp_path / "moldau"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What compiling brings, one after the other."""
    outcomes: list[bool] = []

    def compiled(java_home: Path, draft: Path) -> bool:
        if ends_well := outcomes.pop(0):
            draft.write_bytes(b"classes")
        return ends_well

    monkeypatch.setattr(columnar_jar, "_compiled", compiled)
    return outcomes


def test_it_is_made_once(cache: Path, compiled: list[bool]) -> None:
    compiled += [True]
    jar = columnar_jar.columnar_jar(JAVA)
    assert jar is not None
    assert jar.parent == cache
    assert jar.read_bytes() == b"classes"
    assert columnar_jar.columnar_jar(JAVA) == jar
    assert [file.name for file in cache.iterdir()] == [jar.name]


def test_what_cannot_be_compiled_is_not_tried_again(compiled: list[bool]) -> None:
    compiled += [False]
    assert columnar_jar.columnar_jar(JAVA) is None
    assert columnar_jar.columnar_jar(JAVA) is None


def test_whoever_does_not_want_it_has_none(compiled: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLDAU_SPARK_COLUMNAR", "off")
    assert columnar_jar.columnar_jar(JAVA) is None


def test_another_spark_has_none(compiled: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.9.0")
    assert columnar_jar.columnar_jar(JAVA) is None


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_compiler_of_spark_compiles_it() -> None:
    try:
        java = find_java().path
    except JavaNotFound as missing:
        pytest.skip(str(missing))
    jar = columnar_jar.columnar_jar(java)
    assert jar is not None
    with zipfile.ZipFile(jar) as archive:
        assert "moldau/spark/ColumnarSource.class" in archive.namelist()
        service = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
        assert archive.read(service) == b"moldau.spark.ColumnarSource\n"
