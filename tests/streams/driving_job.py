"""One life of the application of ``kills`` without Spark: SERVERS CHECKPOINT ID PREFIX WORKERS."""

import sys
from pathlib import Path

from moldau.streams.runner.application import StreamsOptions
from moldau.streams.runner.programs import Program
from tests.streams.driving import Driving

servers, checkpoint, name, prefix, _ = sys.argv[1:]
text = Path(__file__).with_name("kill_program.py").read_text().replace("OUT", prefix)
options = StreamsOptions(servers, max_records=200)
Driving(Program("kill_program.py", text=text), name, options, Path(f"{checkpoint}.json")).run(100_000)
