"""The engine: a topology as a machine that takes the records of one task and gives results.

Invariant: pure. What comes out depends on the records, the state and the wall-clock time that are handed in,
and on nothing else; how the records are cut into batches changes nothing.
"""
