"""kafka-delegation-tokens, by transcripts of Kafka's own tool."""

# ruff: noqa: E501 -- a message of Kafka's tools stands in one line, as long as it is

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moldau.testing import Broker

_SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.jaas.config": 'x.PlainLoginModule required user_alice="s";',
    "delegation.token.secret.key": "k",
}
_HEADER = (
    "TOKENID         HMAC                           OWNER           REQUESTER       RENEWERS                  "
    "ISSUEDATE       EXPIRYDATE      MAXDATE        "
)


def test_a_token_from_its_making_to_its_end(tool: Callable[..., Any], tmp_path: Path) -> None:
    config = tmp_path / "alice.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        'sasl.jaas.config=x.PlainLoginModule required username="alice" password="s";\n'
    )
    with Broker(_SETTINGS) as broker:

        def run(words: str) -> Any:
            given = ("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(config))
            return tool("kafka-delegation-tokens", *given, *words.split())

        made = run("--create --max-life-time-period -1 --renewer-principal User:bob").lines
        assert made[0] == (
            "Calling create token operation with renewers :[User:bob] , max-life-time-period :-1"
        )
        assert made[1].startswith("Created delegation token with tokenId : ")
        assert made[3] == _HEADER
        token_id, hmac, owner = made[5].split()[:3]
        assert (len(base64.b64decode(hmac)), owner) == (64, "User:alice")
        listed = run("--describe --owner-principal User:alice").lines
        assert listed[:2] == [
            "Calling describe token operation for owners: [User:alice]",
            "Total number of tokens : 1",
        ]
        assert listed[4].startswith(token_id)
        assert re.search("New expiry date : ", run(f"--renew --renew-time-period -1 --hmac {hmac}").stdout)
        assert run(f"--expire --expiry-time-period -1 --hmac {hmac}").code == 0
        assert run("--describe").lines[1] == "Total number of tokens : 0"
        unknown = run("--expire --hmac AAAA --expiry-time-period -1")
        assert unknown.code == 1
        assert unknown.errors[0] == (
            "org.apache.kafka.common.errors.DelegationTokenNotFoundException: Delegation Token is not found on "
            "server."
        )
