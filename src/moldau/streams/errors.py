"""What a streams program can do wrong, when it is built and when it runs.

Invariant: a ``TopologyError`` comes before the first record, with what to do about it; a ``StreamsError``
names the operator and the record at which a running program stopped.
"""


class TopologyError(Exception):
    """The program makes no sense: said when it is built."""

    def __init__(self, problem: str, fix: str = "") -> None:
        super().__init__(f"Invalid topology: {problem}" + (f" {fix}" if fix else ""))
        self.problem = problem
        self.fix = fix

    @property
    def kafka_message(self) -> str:
        """The sentence that Kafka Streams says, without our advice."""
        return f"Invalid topology: {self.problem}"


class StreamsError(Exception):
    """The program cannot go on."""


class NullKeyError(StreamsError):
    """A store was asked for the key None."""

    def __init__(self) -> None:
        super().__init__("key cannot be null")


class DecodeError(StreamsError):
    """The key or the value of a record does not decode."""
