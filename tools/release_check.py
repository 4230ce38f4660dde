"""``make release-check``: is what we would publish whole, and does it work where only it is installed?

Builds sdist and wheel from the files that git tracks, compares the wheel with ``src/``, installs it into a
fresh environment outside of the repository, starts a broker from there, and writes and reads records with its
commands.

Invariant: leaves nothing behind. Everything is made below one temporary directory, which goes at the end, and
the broker goes with it; nothing is published.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND_SECONDS = 600
START_SECONDS = 60
_READY = re.compile(r"ready: \w+://(127\.0\.0\.1:\d+)")
#: Nothing of the environment of this repository reaches the one that is tested.
_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MOLDAU"))
}
_began = time.monotonic()


class Failed(Exception):
    """What is wrong with the release, in one line or with the output of a command."""


def say(text: str) -> None:
    print(f"{time.monotonic() - _began:6.1f} s  {text}", flush=True)


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Failed(otherwise)


def run(*command: str | Path, cwd: Path, stdin: str = "") -> str:
    """The standard output of a command that has to succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=_ENVIRONMENT, input=stdin, capture_output=True, text=True, timeout=COMMAND_SECONDS
    )
    if done.returncode:
        raise Failed(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def tracked_files() -> list[str]:
    """What git tracks, as far as it is still there; in the state of the working tree."""
    names = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def copy_of_the_repository(names: list[str], source: Path) -> None:
    """A build in the repository would take along what lies around there, and leave its own files."""
    for name in names:
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)


def built(source: Path, target: Path) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from it."""
    run(sys.executable, "-m", "build", "--outdir", target, source, cwd=source)
    [sdist], [wheel] = target.glob("*.tar.gz"), target.glob("*.whl")
    return sdist, wheel


def check_sdist(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        require(name in names, f"{sdist.name} has no {name}")


def check_wheel(wheel: Path, tracked: list[str]) -> int:
    """All of ``src/`` and nothing else: no tests, and no data file left at home. The number of files."""
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if not name.endswith("/")}
    metadata = {name for name in inside if name.split("/")[0].endswith(".dist-info")}
    wanted = {name.removeprefix("src/") for name in tracked if name.startswith("src/")}
    missing, strange = sorted(wanted - inside), sorted(inside - metadata - wanted)
    require(not missing, f"{wheel.name} lacks {', '.join(missing)}: see package-data in pyproject.toml")
    require(not strange, f"{wheel.name} has files that are not in src/: {', '.join(strange)}")
    # ``streams/test_driver.py`` is no test: it is what users test their programs with.
    tests = [name for name in inside if re.search(r"(^|/)(tests|conftest\.py)($|/)", name)]
    require(not tests, f"{wheel.name} has tests: {', '.join(sorted(tests))}")
    require(any(name.endswith("licenses/LICENSE") for name in metadata), f"{wheel.name} has no licence")
    return len(wanted)


def installed(wheel: Path, home: Path) -> Path:
    """The directory of the commands of a new environment with the wheel and what it needs."""
    venv.create(home, with_pip=True)
    commands = home / ("Scripts" if os.name == "nt" else "bin")
    pip = (commands / "python", "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "install", "-c", ROOT / "constraints.txt", wheel, cwd=home)
    run(*pip, "check", cwd=home)
    return commands


def check_installation(commands: Path, version: str, home: Path) -> None:
    told = run(commands / "moldau", "--version", cwd=home).strip()
    require(told == f"moldau {version}", f"moldau --version says {told!r}, pyproject.toml {version!r}")
    code = "import moldau; print(moldau.__file__)"
    where = Path(run(commands / "python", "-c", code, cwd=home).strip()).resolve()
    require(where.is_relative_to(home.resolve()), f"moldau is imported from {where}")


@contextmanager
def broker(commands: Path, home: Path) -> Iterator[str]:
    """Its address, while it runs; it has to stop in peace."""
    command = [commands / "moldau", "broker", "--port", "0", "--data-dir", home / "data"]
    with (home / "broker.log").open("w+") as log:
        process = subprocess.Popen(
            command, cwd=home, env=_ENVIRONMENT, stdout=subprocess.PIPE, stderr=log, text=True
        )
        assert process.stdout is not None
        too_late = threading.Timer(START_SECONDS, process.kill)
        too_late.start()
        try:
            line = process.stdout.readline()  # empty when the broker ends before it is ready
            too_late.cancel()
            found = _READY.search(line)
            require(found is not None, f"no broker: {line}{(home / 'broker.log').read_text()}")
            assert found is not None
            yield found[1]
            process.terminate()
            code = process.wait(30)
            require(code == 0, f"the broker ended with {code}: {(home / 'broker.log').read_text()}")
        finally:
            too_late.cancel()
            process.kill()
            process.wait()
            process.stdout.close()


def check_records(commands: Path, address: str, home: Path) -> None:
    """Written by our command and read by two, in order."""
    records = "".join(f"record {number}\n" for number in range(1000))
    moldau, server = commands / "moldau", ("--bootstrap-server", address)
    run(moldau, "topics", "create", "release", *server, cwd=home)
    run(moldau, "produce", "release", *server, cwd=home, stdin=records)
    read = run(moldau, "consume", "release", *server, cwd=home)
    require(read == records, f"moldau consume read {read[:200]!r}")
    kafka = ("kafka-console-consumer", "--topic", "release", "--from-beginning", "--max-messages", "1000")
    read = run(moldau, *kafka, *server, cwd=home)
    require(read == records, f"moldau kafka-console-consumer read {read[:200]!r}")


def check(home: Path) -> str:
    tracked = tracked_files()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    heading = f"## {version} "
    require(heading in (ROOT / "CHANGELOG.md").read_text(), f"CHANGELOG.md has no section {heading!r}")
    say(f"building moldau {version} from the {len(tracked)} files that git tracks")
    copy_of_the_repository(tracked, home / "source")
    sdist, wheel = built(home / "source", home / "dist")
    say(f"built {sdist.name} and {wheel.name}, {wheel.stat().st_size // 1024} KiB")
    require(f"-{version}-" in wheel.name, f"{wheel.name} is not version {version}")
    check_sdist(sdist)
    count = check_wheel(wheel, tracked)
    say(f"the wheel has all {count} files of src/, data included, and no tests")
    commands = installed(wheel, home / "environment")
    check_installation(commands, version, home / "environment")
    say(f"installed into a fresh environment; moldau --version says {version}")
    for life in ("first", "second"):
        with broker(commands, home) as address:
            if life == "first":
                check_records(commands, address, home)
                say("a broker started from there took 1000 records and gave them back, in order")
            else:
                last = run(commands / "moldau", "offsets", "release", "--bootstrap-server", address, cwd=home)
                require("1000" in last, f"after a restart the offsets are {last!r}")
                say("it stopped in peace, and still had them after a restart")
    return version


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="moldau-release-") as home:
        try:
            version = check(Path(home))
        except Failed as failure:
            print(f"not ready for release: {failure}", file=sys.stderr)
            return 1
    say(f"moldau {version} may be released: docs/releasing.md says how")
    return 0


if __name__ == "__main__":
    sys.exit(main())
