"""The one error of this room: a sentence for the person who wrote or runs a pipeline.

Invariant: its text says what is wrong and what to do next; where it stands in a file it says the line.
"""


class PipelineError(Exception):
    """What is wrong with a pipeline or with what it needs; the message is meant to be read alone."""
