"""UpdateFeatures: raises or lowers the levels of features.

Version 0 knows ``allow_downgrade``; from version 1 ``upgrade_type`` says 1 upgrade, 2 safe downgrade, 3
unsafe downgrade. Results per feature end with version 1.
"""

from moldau.protocol.api_keys import ApiKey
from moldau.protocol.schema import Bool, Int8, Int16, Int32, String, field, request, response, struct


@struct
class FeatureUpdateKey:
    feature: String = field()
    max_version_level: Int16 = field()
    allow_downgrade: Bool = field("0")
    upgrade_type: Int8 = field("1+", default=1)


@request(ApiKey.UPDATE_FEATURES)
class UpdateFeaturesRequest:
    timeout_ms: Int32 = field(default=60000)
    feature_updates: list[FeatureUpdateKey] = field()
    validate_only: Bool = field("1+")


@struct
class UpdatableFeatureResult:
    feature: String = field()
    error_code: Int16 = field()
    error_message: String | None = field()


@response(ApiKey.UPDATE_FEATURES)
class UpdateFeaturesResponse:
    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: String | None = field()
    results: list[UpdatableFeatureResult] = field("0-1")
