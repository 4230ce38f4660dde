"""What a cluster refuses, in the codes of v2 and v3."""

import pytest

from moldau.protocol.errors import ErrorCode, KafkaError
from moldau.rest.problems import from_kafka


@pytest.mark.parametrize(
    ("code", "v2", "v3"),
    [
        ("SASL_AUTHENTICATION_FAILED", (401, 40101), (401, 40101)),
        ("TOPIC_AUTHORIZATION_FAILED", (403, 40301), (403, 40301)),
        ("GROUP_AUTHORIZATION_FAILED", (403, 40301), (403, 40301)),
        ("UNKNOWN_TOPIC_OR_PARTITION", (404, 40401), (404, 40403)),
        ("GROUP_ID_NOT_FOUND", (404, 404), (404, 404)),
        ("NO_REASSIGNMENT_IN_PROGRESS", (404, 404), (404, 404)),
        ("TOPIC_ALREADY_EXISTS", (400, 40002), (400, 40002)),
        ("INVALID_CONFIG", (400, 40002), (400, 40002)),
        ("ILLEGAL_GENERATION", (409, 40903), (409, 40903)),
        ("LEADER_NOT_AVAILABLE", (404, 40404), (500, 50003)),
        ("BROKER_NOT_AVAILABLE", (503, 50302), (503, 50302)),
        ("NOT_LEADER_OR_FOLLOWER", (500, 50003), (500, 50003)),
        ("UNKNOWN_SERVER_ERROR", (500, 50002), (500, 50002)),
    ],
)
def test_codes(code, v2, v3):
    error = KafkaError(ErrorCode[code])
    for expected, is_v2 in ((v2, True), (v3, False)):
        problem = from_kafka(error, v2=is_v2)
        assert (problem.status, problem.code) == expected
        assert problem.message


def test_every_error_has_an_answer():
    for code in ErrorCode:
        if code is not ErrorCode.NONE:
            assert 400 <= from_kafka(KafkaError(code, "why")).status < 600
