"""The demo of ``moldau up --demo``: a shop whose orders and clicks run through a pipeline on Spark.

``shop`` makes the events, ``producer`` writes them to topics, and ``shop_pipeline`` is the pipeline: a file
to read as a tutorial and to copy.
"""
