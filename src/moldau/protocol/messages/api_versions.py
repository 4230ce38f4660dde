"""ApiVersions: which APIs, versions and features the broker has.

The response always travels behind a header without tagged fields, and a request of an unknown version is
answered in version 0. Version 4 lists features whose lowest version is 0, which version 3 leaves out.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int16, Int32, Int64, String, field, request, response, struct


@request(ApiKey.API_VERSIONS)
class ApiVersionsRequest:
    client_software_name: String = field("3+")
    client_software_version: String = field("3+")


@struct
class ApiVersion:
    api_key: Int16 = field()
    min_version: Int16 = field()
    max_version: Int16 = field()


@struct
class SupportedFeatureKey:
    name: String = field()
    min_version: Int16 = field()
    max_version: Int16 = field()


@struct
class FinalizedFeatureKey:
    name: String = field()
    max_version_level: Int16 = field()
    min_version_level: Int16 = field()


@response(ApiKey.API_VERSIONS)
class ApiVersionsResponse:
    error_code: Int16 = field()
    api_keys: list[ApiVersion] = field()
    throttle_time_ms: Int32 = field("1+")
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0)
    finalized_features_epoch: Int64 = field("3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2)
    zk_migration_ready: Bool = field("3+", tag=3)
