"""One life of the application of ``kills``: SERVERS CHECKPOINT ID PREFIX WORKERS; it ends by itself."""

import sys
from pathlib import Path

from moldau.spark import spark_session
from moldau.streams.runner.application import StreamsOptions, start
from moldau.streams.runner.programs import Program

servers, checkpoint, name, prefix, workers = sys.argv[1:]
spark = spark_session(
    "kills",
    master="local[2]",
    spark_driver_memory="1g",
    spark_driver_extraJavaOptions="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    spark_ui_showConsoleProgress="false",
)
spark.sparkContext.setLogLevel("OFF")
text = Path(__file__).with_name("kill_program.py").read_text().replace("OUT", prefix)
program = Program("kill_program.py", text=text)
options = StreamsOptions(servers, workers=int(workers), max_records=1_000)
with start(program, name, spark, checkpoint, options, availableNow=True) as running:
    assert running.query is not None
    running.query.awaitTermination()
print("ended", running.progress)
