# Two commands for people: `make demo` and `make test`. Both set up .venv on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Python keeps what it compiled, also where the environment says not to: hundreds of short processes would compile it again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test check coverage format clean loops simulate simulate-reactive tck soak spark-soak fuzz proof

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tolliver needs Python 3.11 or later: install it, or call make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || { echo "Python's venv module is missing: on Debian, apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# Spark runs on Java 17 or later. Where there is none it is installed, by root on Debian; else this says what to do.
JAVA_VERSION = java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'
.PHONY: java
java:
	@test "$$($(JAVA_VERSION))" -ge 17 2>/dev/null \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless >/dev/null; } \
	  || echo "Spark needs Java 17 or later, and none was found: on Debian, apt-get install openjdk-17-jre-headless. All else works without it."

# A browser, without a window, looks at the audit's report. Installed in the same way; the tests skip it if it is missing.
.PHONY: browser
browser:
	@for it in chromium-headless-shell chromium chromium-browser google-chrome; do command -v $$it >/dev/null && exit 0; done; \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium-headless-shell >/dev/null; } \
	  || echo "No browser was found to look at the audit's report: on Debian, apt-get install chromium-headless-shell. All else is tested."

# What the demo leaves behind is in ./demo, which the next one empties.
demo: $(VENV)/.ready java
	$(BIN)/python -m examples.demo --directory demo

# First what must run every line and every branch of tolliver_proto; then all the rest, the adapters but for the loops that
# `make loops` runs; last what runs in Spark: two files at a time, as each process has a Spark of its own.
test: check browser
	$(BIN)/python scripts/coverage_core.py -n 2
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -k 'not uvloop and not twisted-asyncio' --ignore=tests/spark \
	  $$($(BIN)/python scripts/coverage_core.py --files | xargs printf -- '--ignore=%s ')
	$(BIN)/python -m pytest -q -n 2 --dist loadfile tests/spark

# The tests of the adapters, watched, which costs them half as much again: is each line run that can be?
coverage: $(VENV)/.ready
	$(BIN)/python scripts/coverage_adapters.py -n 2 --dist worksteal

# The adapters on uvloop, and on Twisted over asyncio.
loops: $(VENV)/.ready
	$(BIN)/python scripts/coverage_adapters.py --other-loops -n 2 --dist worksteal

# Simulated networks on all cores; the first that fails is shrunk to a short trace.
SCHEDULES ?= 10000
simulate: $(VENV)/.ready
	$(BIN)/python scripts/simulate.py $(SCHEDULES)

# The same for networks of the Reactive Streams protocol.
simulate-reactive: $(VENV)/.ready
	$(BIN)/python scripts/simulate.py --reactive $(SCHEDULES)

# The rules of Reactive Streams over engines and adapters, under the names of the JVM's conformance kit.
tck: $(VENV)/.ready
	$(BIN)/python scripts/tck.py -n 2 --dist worksteal

# kill -9 of real senders and receivers on all cores, then compare sets.
soak: KILLS ?= 10000
soak: $(VENV)/.ready
	$(BIN)/python scripts/soak.py $(KILLS)

# Spark drivers with their JVMs, and stagers, are killed while messages come: nothing may be lost or there twice.
spark-soak: KILLS ?= 20
spark-soak: $(VENV)/.ready java
	$(BIN)/python scripts/spark_soak.py $(KILLS)

# All fuzz targets for so long in all; what reaches new edges is kept in fuzz/corpus, a crash in fuzz/crashes.
MINUTES ?= 10
fuzz: $(VENV)/.ready
	$(BIN)/python scripts/fuzz.py $(MINUTES)

# Everything that must hold, or ROWS="V7 V8" of it, in an hour or so; writes docs/proof.md.
proof: $(VENV)/.ready java
	$(BIN)/python scripts/proof.py $(ROWS)

check: $(VENV)/.ready java
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
