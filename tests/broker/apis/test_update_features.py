"""UpdateFeatures, and the APIs of a quorum that this cluster does not have."""

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest
from moldau.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from moldau.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.broker.apis.asking import Ask


def _update(ask: Ask, name: str, level: int, version: int = 2) -> tuple[int, str | None, list[str]]:
    request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(name, level)])
    answer = ask(request, version)
    return answer.error_code, answer.error_message, [each.feature for each in answer.results]


def test_the_level_that_a_feature_has_is_no_change(ask: Ask) -> None:
    assert _update(ask, "group.version", 1) == (0, None, [])
    assert _update(ask, "transaction.version", 2, version=1) == (0, None, ["transaction.version"])


@pytest.mark.parametrize(
    ("name", "level", "reason"),
    [
        ("nope", 1, "Local controller 1 does not support this feature."),
        ("group.version", 0, "Local controller 1 only supports version 1."),
        ("group.version", 7, "Local controller 1 only supports version 1."),
    ],
)
def test_other_levels_are_refused(ask: Ask, name: str, level: int, reason: str) -> None:
    code, message, results = _update(ask, name, level)
    assert (code, results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert message is not None
    assert message.endswith(f"Invalid update version {level} for feature {name}. {reason}")


@pytest.mark.parametrize("request_class", [AddRaftVoterRequest, RemoveRaftVoterRequest])
def test_there_are_no_voters_to_change(
    ask: Ask, request_class: type[AddRaftVoterRequest | RemoveRaftVoterRequest]
) -> None:
    own = ask(request_class(cluster_id=ask.broker.node.services.cluster_id))
    assert own.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert "kraft.version feature is 0" in own.error_message
    assert ask(request_class(cluster_id="another")).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
