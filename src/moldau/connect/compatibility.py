"""How closely converters and transforms follow Apache Kafka Connect where that loses data.

Apache's classes wrap numbers that do not fit round, read a text as the number 0, and drop what follows a
value. ``STRICT`` refuses such records; ``KAFKA`` does to the letter what Apache's classes do.
"""

from enum import Enum


class Compatibility(Enum):
    STRICT = "strict"
    KAFKA = "kafka"
