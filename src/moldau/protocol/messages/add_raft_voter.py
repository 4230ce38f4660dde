"""AddRaftVoter: adds a controller to the quorum."""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Bool,
    Int16,
    Int32,
    String,
    Uint16,
    UuidBytes,
    field,
    request,
    response,
    struct,
)


@struct
class Listener:
    name: String = field()
    host: String = field()
    port: Uint16 = field()


@request(ApiKey.ADD_RAFT_VOTER)
class AddRaftVoterRequest:
    cluster_id: String | None = field()
    timeout_ms: Int32 = field()
    voter_id: Int32 = field()
    voter_directory_id: UuidBytes = field()
    listeners: list[Listener] = field()
    ack_when_committed: Bool = field("1+", default=True)


@response(ApiKey.ADD_RAFT_VOTER)
class AddRaftVoterResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field()
