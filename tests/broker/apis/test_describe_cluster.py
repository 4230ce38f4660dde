"""DescribeCluster: the brokers as this listener sees them."""

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest
from tests.broker.apis.asking import Ask


def test_the_cluster(ask: Ask) -> None:
    response = ask(DescribeClusterRequest(endpoint_type=1))
    assert (response.error_code, response.controller_id) == (0, 1)
    assert response.cluster_id == ask.broker.node.services.cluster_id
    (broker,) = response.brokers
    assert (broker.broker_id, broker.host, broker.port) == (1, *ask.broker.node.address())
    assert not broker.is_fenced
    assert response.cluster_authorized_operations == -2147483648


def test_operations_are_told_when_asked_for(ask: Ask) -> None:
    response = ask(DescribeClusterRequest(True, 1))
    assert response.cluster_authorized_operations & 1 << 8, "describe"


@pytest.mark.parametrize(
    ("endpoint_type", "code", "word"),
    [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE, "CONTROLLER"),
        (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "7"),
    ],
)
def test_other_endpoints(ask: Ask, endpoint_type: int, code: ErrorCode, word: str) -> None:
    response = ask(DescribeClusterRequest(False, endpoint_type))
    assert (response.error_code, response.brokers) == (code, [])
    assert word in response.error_message
