# Moldau: the two commands that matter are `make run` and `make test`; both set up everything they need.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 9092
DATA_DIR ?= data
# A stamp per set of packages: a second run starts at once, a changed list installs again.
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
READY_BENCH := $(VENV)/.ready-bench

.PHONY: help setup run test lint format bench bench-spark conformance soak docs clean

help:
	@echo "make run          start a broker on 127.0.0.1:$(PORT) with its data in ./$(DATA_DIR)"
	@echo "make test         lint, types and all tests"
	@echo "make setup        the environment in .venv with the command .venv/bin/moldau"
	@echo "make lint         ruff and mypy only            make format   rewrite the code in house style"
	@echo "make bench        Moldau against Apache Kafka (needs Java 17 and Maven; about 35 minutes)"
	@echo "make bench-spark  our Spark source and sink against Spark's own connector (needs Java 17 and Maven)"
	@echo "make conformance  Kafka's own tools and clients against Moldau (needs Java 17 and Maven)"
	@echo "make soak         hours of random load, kills and restarts (SECONDS=600)"
	@echo "make docs         regenerate docs/settings.md, docs/protocol.md and docs/spark-options.md"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Moldau needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; use make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV); $(MAKE) --no-print-directory debian-venv && $(PYTHON) -m venv $(VENV); }

# Debian ships venv in a package of its own.
.PHONY: debian-venv
debian-venv:
	@echo "python3 has no venv module; installing the Debian package python3-venv"
	@apt-get update -qq && apt-get install -y -qq python3-venv

$(READY): pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing Moldau into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@$(BIN)/python -m compileall -q src  # a broker that is started for the first time starts as fast as later
	@touch $@

$(READY_DEV): $(READY)
	@echo "installing what the tests need"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,registry,spark]'
	@touch $@

$(READY_BENCH): $(READY_DEV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,registry,spark,bench]'
	@touch $@

setup: $(READY)

run: setup
	@exec $(BIN)/moldau broker --port $(PORT) --data-dir $(DATA_DIR)

lint: $(READY_DEV)
	@$(BIN)/ruff check src tests benchmarks docs examples
	@$(BIN)/ruff format --check -q src tests benchmarks docs examples
	@$(BIN)/mypy

format: $(READY_DEV)
	@$(BIN)/ruff check --fix -q src tests benchmarks docs examples
	@$(BIN)/ruff format -q src tests benchmarks docs examples

# Spark's tests run on a Java; without root and without one they are left out, and say so.
.PHONY: java
java:
	@command -v java >/dev/null || [ -n "$$JAVA_HOME" ] || { \
		echo "installing Java for the tests of Spark"; \
		apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless; } || true

test: lint java
	@$(BIN)/pytest -n 2 --dist loadgroup

bench: $(READY_BENCH)
	@$(BIN)/python -m benchmarks.compare

bench-spark: $(READY_BENCH)
	@$(BIN)/python -m benchmarks.spark_compare

conformance: $(READY_BENCH)
	@command -v kcat >/dev/null || { apt-get update -qq && apt-get install -y -qq kcat; }
	@MOLDAU_CONFORMANCE=1 $(BIN)/pytest tests/conformance

SECONDS ?= 600
soak: $(READY_DEV)
	@MOLDAU_SOAK_SECONDS=$(SECONDS) $(BIN)/pytest tests/soak --timeout 0

docs: $(READY_DEV)
	@$(BIN)/python docs/generate_settings.py
	@$(BIN)/python docs/generate_protocol.py
	@$(BIN)/python docs/generate_spark_options.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
