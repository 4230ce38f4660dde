"""The state of a task: one store for each thing that an operator must remember.

Invariant: a store is a set of rows and a few numbers. ``export`` gives both, ``take_changes`` what changed
since it was last asked, and a store that took them over goes on exactly as the first would have.
"""
