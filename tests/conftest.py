"""What all tests share: those that take long begin first, so that short ones fill the gaps behind them."""

import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes says more about the machine than about the code.
settings.register_profile("moldau", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("moldau")


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One Spark for all tests of a worker: it takes seconds to start."""
    from moldau.spark import JavaNotFound, find_java, spark_session

    try:
        find_java()
    except JavaNotFound as missing:
        pytest.skip(str(missing))
    session = spark_session(
        "moldau tests",
        master="local[2]",
        spark_sql_shuffle_partitions=2,
        spark_driver_memory="1g",
        # Short lives: what a better compiler saves is less than what it costs.
        spark_driver_extraJavaOptions="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        spark_sql_codegen_wholeStage="false",
        spark_sql_execution_pyspark_udf_faulthandler_enabled="true",
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def make_certificate(directory: Path, name: str) -> None:
    """``name.pem`` and ``name.key``: a certificate for 127.0.0.1 that is its own authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    address = x509.IPAddress(ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (directory / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (directory / f"{name}.key").write_bytes(private)


@pytest.fixture(scope="session")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with server.pem, server.key, client.pem and client.key."""
    directory = tmp_path_factory.mktemp("tls")
    for name in ("server", "client"):
        make_certificate(directory, name)
    return directory


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--part", help="2/3: the second of three shares of the test files", metavar="N/OF")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """True for a file that belongs to another part. Its share depends on its name alone."""
    part = config.getoption("part")
    if part is None or collection_path.suffix != ".py":
        return None
    number, parts = map(int, part.split("/"))
    name = str(collection_path.relative_to(config.rootpath))
    return True if zlib.crc32(name.encode()) % parts != number - 1 else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, else as collected: a file stays together, as each goes to one worker."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")  # before pytest looks which markers are wanted
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
