"""The topic settings that a log uses, with Kafka's defaults.

Names, ranges and sources of settings are declared in ``cluster/configs``. The config of a log is replaced
as a whole while it is in use. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from moldau.protocol.compression import COMPRESSION_NAMES, Compression

MAX_LONG = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    file_delete_delay_ms: int = 60_000
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = MAX_LONG
    min_cleanable_dirty_ratio: float = 0.5
    #: cleanup.policy, as two flags.
    compact: bool = False
    delete: bool = True
    #: compression.type; None means: as the producer sent it.
    compression: Compression | None = None
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    #: message.timestamp.type is LogAppendTime.
    log_append_time: bool = False
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_after_max_ms: int = 3_600_000

    @classmethod
    def from_values(cls, values: Mapping[str, object]) -> "LogConfig":
        """From typed values by the names of topic settings; other settings are ignored."""
        known: dict[str, Any] = {
            field.name: values[name]
            for field in fields(cls)
            if (name := field.name.replace("_", ".")) in values and isinstance(values[name], int | float)
        }
        if "cleanup.policy" in values:
            policies = _names(values["cleanup.policy"])
            known["compact"] = "compact" in policies
            known["delete"] = "delete" in policies
        if "compression.type" in values:
            known["compression"] = _compression(str(values["compression.type"]))
        if "message.timestamp.type" in values:
            known["log_append_time"] = str(values["message.timestamp.type"]) == "LogAppendTime"
        return cls(**known)

    @property
    def max_segment_ms(self) -> int:
        """When a segment is rolled at the latest: what must be compacted soon may not stay active."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms

    def compression_level(self, codec: Compression) -> int | None:
        """The level to recompress with; None for the codec's default."""
        if codec is Compression.GZIP:
            return None if self.compression_gzip_level < 0 else self.compression_gzip_level
        if codec is Compression.LZ4:
            return self.compression_lz4_level
        if codec is Compression.ZSTD:
            return self.compression_zstd_level
        return None


def _names(value: object) -> set[str]:
    names = value.split(",") if isinstance(value, str) else value
    assert isinstance(names, list | tuple | set | frozenset)
    return {str(name).strip() for name in names}


def _compression(name: str) -> Compression | None:
    if name == "producer":
        return None
    return Compression.NONE if name == "uncompressed" else COMPRESSION_NAMES[name]
