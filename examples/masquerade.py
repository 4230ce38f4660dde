"""The treasure hunt: a team that means no good, and the steps that keep it out, one after the other.

Team Clueful keeps its clues in the topic ``clueful_secrets``. Team Clueless, which is Franz, reads them and
writes false ones. After each step the same attack is tried again, in every way that is left to Franz, and
Hemingway of team Clueful goes on working.

    python examples/masquerade.py        # pip install moldau[security] confluent-kafka; half a minute

The broker is a process with a ``server.properties`` of Kafka's words; what an administrator types is printed.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

TOPIC = "clueful_secrets"
MOLDAU = [sys.executable, "-m", "moldau"]
PASSWORDS = {"hemingway": "the old man", "franz": "the castle", "admin": "the keys"}
Settings = dict[str, str]


@contextmanager
def broker(home: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """A broker with these settings and the data of the one before; its address."""
    everything = {"log.dirs": str(home / "data"), "node.id": "1", **settings}
    file = home / "server.properties"
    file.touch(mode=0o600)
    file.write_text("".join(f"{name}={value}\n" for name, value in everything.items()))
    command = [*MOLDAU, "broker", "--config", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"127\.0\.0\.1:\d+", process.stdout.readline())
            assert found is not None, "the broker did not start"
            yield found[0]
        finally:
            process.terminate()


def administrator(home: Path, line: str) -> None:
    print(f"    $ moldau {line}")
    done = subprocess.run([*MOLDAU, *line.split()], cwd=home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def write(client: Settings, clue: str) -> str | None:
    """Why a record was not written; None when it was."""
    outcomes: list[str | None] = []
    producer = Producer({**client, "message.timeout.ms": 4000, "log_level": 0})
    producer.produce(TOPIC, clue, on_delivery=lambda error, _: outcomes.append(error and error.name()))
    producer.flush(10)
    return outcomes[0] if outcomes else "no answer"


def read(client: Settings) -> list[str]:
    """All clues that are there; an error of the broker is raised."""
    consumer = Consumer({**client, "group.id": "clues", "enable.auto.commit": "false", "log_level": 0})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=4)
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        messages = consumer.consume(end, timeout=10)
        if errors := [error for message in messages if (error := message.error()) is not None]:
            raise KafkaException(errors[0])
        return [value.decode() for message in messages if (value := message.value()) is not None]
    finally:
        consumer.close()


def attack(who: str, client: Settings) -> bool:
    """Whether anything came of it."""
    try:
        clues = read(client)
    except KafkaException as error:
        clues, reason = [], error.args[0].name()
    refused = write(client, "dig in the desert")
    if not clues and refused is not None:
        print(f"  {who}: nothing ({reason}, {refused})")
        return False
    print(f"  {who}: reads {clues[:1]}, and {'writes a false clue' if refused is None else 'writes nothing'}")
    return True


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        print("1. Nobody is asked anything")
        with broker(home, {"listeners": "PLAINTEXT://127.0.0.1:0"}) as address:
            assert write({"bootstrap.servers": address}, "dig below the oak") is None
            assert attack("Franz", {"bootstrap.servers": address})

        print("2. TLS with client certificates: whoever has none stays outside, and nobody listens in")
        certificates = home / "certs"
        administrator(home, "certs init")
        administrator(home, "certs broker broker --host 127.0.0.1")
        administrator(home, "certs client hemingway")
        tls = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificates / "broker.pem")}
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(certificates / "ca.pem")}
        required = {**tls, **trusted, "ssl.client.auth": "required"}
        with broker(home, {"listeners": "SSL://127.0.0.1:0", **required}) as address:
            plain = {"bootstrap.servers": address}
            encrypted = {
                **plain,
                "security.protocol": "SSL",
                "ssl.ca.location": str(certificates / "ca.pem"),
            }
            own = {"ssl.certificate.location": str(certificates / "hemingway.pem")}
            own |= {"ssl.key.location": str(certificates / "hemingway.pem")}
            assert not attack("Franz, in plain text", plain)
            assert not attack("Franz, over TLS", encrypted)
            assert write({**encrypted, **own}, "dig at noon") is None

        print("3. Logins: Franz has an account too, for other work, so a login alone does not stop him")
        users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
        logins = {
            "listeners": "SASL_SSL://127.0.0.1:0",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.jaas.config": f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};",
            **tls,
        }
        with broker(home, logins) as address:
            assert not attack("Franz, guessing", login(address, certificates, "hemingway", "the whale"))
            assert attack("Franz", login(address, certificates, "franz"))

        print("4. ACLs: only who was let may read or write, and Franz is not even told what there is")
        rights = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
        }
        with broker(home, {**logins, **rights}) as address:
            command_config = home / "admin.properties"
            command_config.touch(mode=0o600)
            jaas = f'x.PlainLoginModule required username="admin" password="{PASSWORDS["admin"]}";'
            command_config.write_text(
                f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n"
                f"ssl.truststore.type=PEM\nssl.truststore.location={certificates / 'ca.pem'}\n"
            )
            for right in (f"read --topic {TOPIC}", f"write --topic {TOPIC}", "read --group clues"):
                reach = f"--bootstrap-server {address} --command-config {command_config.name}"
                administrator(home, f"acls add --user hemingway --operation {right} {reach}")
            hemingway = login(address, certificates, "hemingway")
            assert write(hemingway, "dig deeper") is None
            assert not attack("Franz", login(address, certificates, "franz"))
            clues = read(hemingway)
            print(f"  Hemingway reads {clues}")
            assert clues == [
                "dig below the oak",
                "dig in the desert",
                "dig at noon",
                "dig in the desert",
                "dig deeper",
            ]


def login(address: str, certificates: Path, user: str, password: str = "") -> Settings:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password or PASSWORDS[user],
        "ssl.ca.location": str(certificates / "ca.pem"),
    }


if __name__ == "__main__":
    main()
