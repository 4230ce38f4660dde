"""Spark's source and sink against a cluster with TLS and logins; each mechanism writes and reads a topic."""

import base64
import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from moldau.cli.certificates import Authority
from moldau.cluster.controller.security import ScramChange, change_credentials
from moldau.security.scram import ScramMechanism, credential
from moldau.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_LOGIN = 'required username="ann" password="secret";'


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority.create(tmp_path_factory.mktemp("ca"))
    made.issue("broker", hosts=["localhost", "127.0.0.1"])
    made.issue("ann", subject={"CN": "ann"})
    return made


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[Broker]:
    settings = {
        "listeners": "SASL_SSL://localhost:0,SSL://localhost:0",
        "inter.broker.listener.name": "SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "plain.sasl.jaas.config": 'x.PlainLoginModule required user_ann="secret";',
        "moldau.oauthbearer.unsecured.allow": "true",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.directory / "ca.pem"),
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?)(,.*)?$/$1/",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ann",
    }
    changes = [ScramChange("ann", each, credential(each, "secret", b"salt")) for each in ScramMechanism]
    with Broker(settings) as broker:

        async def submit() -> None:
            await broker.node.metadata.execute(lambda image: change_credentials(image, changes))

        broker.run(submit())
        yield broker


def _token() -> str:
    """Unsigned: a test of its own is about signatures."""
    parts = ({"alg": "none"}, {"sub": "ann", "iat": int(time.time()), "exp": int(time.time()) + 3600})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return f"{'.'.join(encoded)}."


def _options(broker: Broker, authority: Authority, mechanism: str) -> dict[str, str]:
    listener = "SSL" if mechanism == "certificate" else "SASL_SSL"
    options = {
        "kafka.bootstrap.servers": f"localhost:{broker.node.address(listener)[1]}",
        "kafka.security.protocol": listener,
        "kafka.ssl.truststore.location": str(authority.directory / "ca.pem"),
    }
    if mechanism == "certificate":
        return options | {"kafka.ssl.keystore.location": str(authority.directory / "ann.pem")}
    options["kafka.sasl.mechanism"] = mechanism
    if mechanism == "OAUTHBEARER":
        return options | {"kafka.sasl.oauthbearer.token": _token()}
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    line = f"org.apache.kafka.common.security.{module} {_LOGIN}"
    return options | {"kafka.sasl.jaas.config": line}


@pytest.mark.parametrize(
    "mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "certificate"]
)
def test_a_topic_is_written_and_read(
    secured: Broker, authority: Authority, spark: "SparkSession", mechanism: str
) -> None:
    options, name = _options(secured, authority, mechanism), f"of-{mechanism}"
    secured.create_topic(name)
    rows = [(f"k{number}", f"v{number}") for number in range(5)]
    frame = spark.createDataFrame(rows, "key string, value string")
    frame.write.format("moldau").options(**options).option("topic", name).save()
    read = spark.read.format("moldau").options(**options).option("subscribe", name).load()
    found = sorted((bytes(row.key).decode(), bytes(row.value).decode()) for row in read.collect())
    assert found == rows


def test_a_wrong_password_is_said(secured: Broker, authority: Authority, spark: "SparkSession") -> None:
    options = _options(secured, authority, "PLAIN")
    options["kafka.sasl.jaas.config"] = options["kafka.sasl.jaas.config"].replace("secret", "guess")
    with pytest.raises(Exception, match="no login at") as caught:
        spark.read.format("moldau").options(**options).option("subscribe", "of-PLAIN").load().collect()
    assert "guess" not in str(caught.value)
