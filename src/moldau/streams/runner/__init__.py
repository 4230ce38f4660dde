"""Runs a topology on Spark: a Structured Streaming query whose tasks are Kafka Streams' tasks.

Spark decides what a batch reads, keeps that in its checkpoint, and runs the tasks on its executors. A task
keeps its state in memory there, and writes results, changed rows and its place into one transaction. The
driver's decision ends the transactions of a batch together, so that a batch happens once or not at all.
"""
