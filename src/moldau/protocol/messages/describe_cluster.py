"""DescribeCluster: cluster id, controller and brokers.

The endpoint type (version 1) is 1 for brokers and 2 for controllers; version 2 can include fenced brokers.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int8, Int16, Int32, String, field, request, response, struct


@request(ApiKey.DESCRIBE_CLUSTER)
class DescribeClusterRequest:
    include_cluster_authorized_operations: Bool = field()
    endpoint_type: Int8 = field("1+", default=1)
    include_fenced_brokers: Bool = field("2+")


@struct
class DescribeClusterBroker:
    broker_id: Int32 = field()
    host: String = field()
    port: Int32 = field()
    rack: String | None = field(default=None)
    is_fenced: Bool = field("2+")


@response(ApiKey.DESCRIBE_CLUSTER)
class DescribeClusterResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field(default=None)
    endpoint_type: Int8 = field("1+", default=1)
    cluster_id: String = field()
    controller_id: Int32 = field(default=-1)
    brokers: list[DescribeClusterBroker] = field()
    cluster_authorized_operations: Int32 = field(default=-2147483648)
