"""The one error of this package: what is wrong with a statement, said to the person who wrote it."""


class SqlError(Exception):
    """A statement that cannot be understood, planned or run."""
