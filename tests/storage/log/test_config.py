"""The settings of a topic as its logs have them."""

import pytest

from moldau.protocol.compression import Compression
from moldau.storage.log.config import MAX_LONG, LogConfig


def test_kafkas_defaults() -> None:
    config = LogConfig()
    assert (config.segment_bytes, config.retention_ms) == (1 << 30, 7 * 86_400_000)
    assert (config.compact, config.delete, config.compression) == (False, True, None)
    assert LogConfig.from_values({}) == config


def test_values_by_the_names_of_settings() -> None:
    values = {
        "retention.ms": 5,
        "min.cleanable.dirty.ratio": 0.1,
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": 2,
    }
    config = LogConfig.from_values(values)
    assert (config.retention_ms, config.min_cleanable_dirty_ratio, config.log_append_time) == (5, 0.1, True)


@pytest.mark.parametrize(
    ("policy", "compact", "delete"),
    [
        ("compact", True, False),
        ("delete", False, True),
        ("compact, delete", True, True),
        (("compact",), True, False),
    ],
)
def test_policies(policy: object, compact: bool, delete: bool) -> None:
    config = LogConfig.from_values({"cleanup.policy": policy})
    assert (config.compact, config.delete) == (compact, delete)


@pytest.mark.parametrize(
    ("name", "codec"),
    [("producer", None), ("uncompressed", Compression.NONE), ("zstd", Compression.ZSTD)],
)
def test_compression(name: str, codec: Compression | None) -> None:
    assert LogConfig.from_values({"compression.type": name}).compression is codec


def test_levels_of_compression() -> None:
    config = LogConfig(compression_gzip_level=-1, compression_lz4_level=5, compression_zstd_level=7)
    assert config.compression_level(Compression.GZIP) is None
    assert config.compression_level(Compression.LZ4) == 5
    assert config.compression_level(Compression.ZSTD) == 7
    assert config.compression_level(Compression.SNAPPY) is None
    assert LogConfig(compression_gzip_level=6).compression_level(Compression.GZIP) == 6


def test_what_must_be_compacted_by_then_is_not_active_any_more() -> None:
    lag = {"segment_ms": 100, "max_compaction_lag_ms": 30}
    assert LogConfig(**lag).max_segment_ms == 100
    assert LogConfig(**lag, compact=True).max_segment_ms == 30
    assert LogConfig(segment_ms=100, max_compaction_lag_ms=MAX_LONG, compact=True).max_segment_ms == 100
