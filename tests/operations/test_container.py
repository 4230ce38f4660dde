"""The image of deploy/container, built and started: a broker in it serves a client as the user it names.

Its base is made here by debootstrap under the name that the container file asks for, so that no registry of
images is needed: Debian's Python instead of the one that is asked for, all else as for operators. Needs root,
buildah and debootstrap (Debian has both); no daemon, no namespaces, no overlay file system.
"""

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.connect.servers import free_port
from tests.operations.processes import moldau
from tests.shared.waiting import wait_until

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy/container/Containerfile"
pytestmark = pytest.mark.timeout(1200)


def base_name() -> str:
    """What the container file begins with."""
    text = FILE.read_text()
    version = re.search(r"^ARG PYTHON=(\S+)$", text, re.MULTILINE)
    name = re.search(r"^FROM (\S+) AS build$", text, re.MULTILINE)
    assert version is not None
    assert name is not None
    return name[1].replace("${PYTHON}", version[1])


class Images:
    """Buildah with a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.command = ["buildah", "--storage-driver", "vfs", "--root", str(folder / "store")]
        self.command += ["--runroot", str(folder / "run")]

    def __call__(self, *arguments: object, check: bool = True) -> str:
        done = subprocess.run(
            [*self.command, *map(str, arguments)], capture_output=True, text=True, env=environment()
        )
        assert not check or done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        return done.stdout.strip()

    def run(self, container: str, *command: object, **variables: str) -> list[str]:
        """The command that runs another one in a container."""
        given = [f"--env={name}={value}" for name, value in variables.items()]
        options = ["run", "--isolation", "chroot", *given, container, "--"]
        return [*self.command, *options, *map(str, command)]


def environment() -> dict[str, str]:
    return {**os.environ, "BUILDAH_ISOLATION": "chroot"}


def make_base(folder: Path) -> None:
    """A small Debian with Python, and with this machine's way to packages."""
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    options = ["--variant=minbase", "--include=ca-certificates,python3-venv"]
    subprocess.run(["debootstrap", *options, release, str(folder)], check=True, capture_output=True)
    (folder / "usr/bin/python").symlink_to("python3")
    for name in ("etc/pip.conf", "etc/ssl/certs/ca-certificates.crt"):
        if Path("/", name).exists():
            shutil.copyfile(Path("/", name), folder / name)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    missing = [name for name in ("buildah", "debootstrap") if shutil.which(name) is None]
    if missing or os.getuid() != 0:
        pytest.skip(f"an image is built by root with buildah and debootstrap; missing: {missing or 'root'}")
    folder = tmp_path_factory.mktemp("images")
    images = Images(folder)
    make_base(folder / "base")
    scratch = images("from", "scratch")
    images("add", "--quiet", scratch, folder / "base", "/")
    images("commit", "--quiet", "--rm", scratch, base_name())
    build = ("--format", "docker", "--isolation", "chroot", "--pull-never", "--file", FILE)
    images("build", *build, "--tag", "moldau", ROOT)
    yield images
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def config(images: Images) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(images("inspect", "--type", "image", "moldau"))["Docker"]["config"]
    return found


def test_what_the_image_says_of_itself(config: dict[str, Any]) -> None:
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["moldau"]
    assert set(config["ExposedPorts"]) == {"9092/tcp", "9404/tcp"}
    assert config["Healthcheck"]["Test"] == ["CMD", "python", "/opt/moldau/healthcheck.py"]


def test_a_broker_in_the_image_serves_and_stops(images: Images, config: dict[str, Any]) -> None:
    port, metrics = free_port(), free_port()
    address, url = f"127.0.0.1:{port}", f"http://127.0.0.1:{metrics}/readyz"
    container = images("from", "--pull-never", "moldau")
    arguments = (*config["Cmd"][:-1], metrics, "--set", f"listeners=PLAINTEXT://{address}")
    check = images.run(container, *config["Healthcheck"]["Test"][1:], MOLDAU_HEALTH_URL=url)
    started = images.run(container, *config["Entrypoint"], *arguments)
    process = subprocess.Popen(started, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert subprocess.run(check, env=environment(), capture_output=True).returncode in (0, 1)
        wait_until(
            lambda: subprocess.run(check, env=environment(), capture_output=True).returncode == 0,
            "the health check says that it serves",
            seconds=120,
        )
        moldau("topics", "create", "orders", "-b", address)
        assert "orders" in moldau("topics", "list", "-b", address).stdout
        who = subprocess.run(images.run(container, "id", "-u"), env=environment(), capture_output=True)
        assert who.stdout.strip() == b"10001"
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=120)
    assert b"Traceback" not in said, said[-4000:]
