"""BrokerRegistration: a broker that starts presents itself to the controller.

``previous_broker_epoch`` (version 3) is the epoch of a process that has stopped cleanly, or -1.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import (
    Bool,
    Int16,
    Int32,
    Int64,
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
    security_protocol: Int16 = field()


@struct
class Feature:
    name: String = field()
    min_supported_version: Int16 = field()
    max_supported_version: Int16 = field()


@request(ApiKey.BROKER_REGISTRATION)
class BrokerRegistrationRequest:
    broker_id: Int32 = field()
    cluster_id: String = field()
    incarnation_id: UuidBytes = field()
    listeners: list[Listener] = field()
    features: list[Feature] = field()
    rack: String | None = field()
    is_migrating_zk_broker: Bool = field("1+")
    log_dirs: list[UuidBytes] = field("2+")
    previous_broker_epoch: Int64 = field("3+", default=-1)


@response(ApiKey.BROKER_REGISTRATION)
class BrokerRegistrationResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    broker_epoch: Int64 = field(default=-1)
