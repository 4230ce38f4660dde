"""RemoveRaftVoter: removes a controller from the quorum."""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Int16, Int32, String, UuidBytes, field, request, response


@request(ApiKey.REMOVE_RAFT_VOTER)
class RemoveRaftVoterRequest:
    cluster_id: String | None = field()
    voter_id: Int32 = field()
    voter_directory_id: UuidBytes = field()


@response(ApiKey.REMOVE_RAFT_VOTER)
class RemoveRaftVoterResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field()
