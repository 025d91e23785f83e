# Two commands for people: `make demo` and `make test`. Both set up .venv on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Python keeps what it compiled, also where the environment says not to: hundreds of short processes would compile it again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test quick suite again core check coverage format clean loops thorough simulate simulate-reactive tck soak spark-soak fuzz proof

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "tolliver needs Python 3.11 or later: install it, or call make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' || { echo "Python's venv module is missing: on Debian, apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The pip that a new environment has may be older than dependency groups are. It compiles nothing: that took
# more than half of its time, and Python compiles a module when the first process imports it.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
$(VENV)/.pip: | $(BIN)/python
	@$(PIP_INSTALL) 'pip>=25.1' || { echo "Dependency groups need pip 25.1 or later in $(VENV), and the package index gave none: see above. Put one there, and call make again"; exit 1; }
	@touch $@

$(VENV)/.ready: pyproject.toml | $(VENV)/.pip
	$(PIP_INSTALL) --editable '.[all,fuzz]' --group dev
	@touch $@

# The first process that collects the tests compiles them, which takes twice as long as the rest of it. It is done once
# here, before five processes do so side by side. The tests tell of an error in one of them.
$(VENV)/.compiled: $(VENV)/.ready
	@$(BIN)/python -m pytest -q --collect-only >/dev/null 2>&1 || true
	@touch $@

# Spark runs on Java 17 or later. Where there is none it is installed, by root on Debian; else this says what to do.
JAVA_VERSION = java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'
.PHONY: java
java:
	@test "$$($(JAVA_VERSION))" -ge 17 2>/dev/null \
	  || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && $(PYTHON) scripts/install.py apt openjdk-17-jre-headless; } \
	  || echo "Spark needs Java 17 or later, and none was found: on Debian, apt-get install openjdk-17-jre-headless. All else works without it."

# A browser, without a window, looks at the audit's report. Installed in the same way; the tests skip it if it is missing.
# It waits for Java, as apt-get does one thing at a time.
.PHONY: browser
browser: | java
	@for it in chromium-headless-shell chromium chromium-browser google-chrome; do command -v $$it >/dev/null && exit 0; done; \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium-headless-shell >/dev/null; } \
	  || echo "No browser was found to look at the audit's report: on Debian, apt-get install chromium-headless-shell. All else is tested."

# tshark runs the Wireshark dissector. Installed in the same way, and last; the tests skip it if it is missing.
.PHONY: tshark
tshark: | java browser
	@command -v tshark >/dev/null && exit 0; \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends tshark >/dev/null; } \
	  || echo "No tshark was found to run the Wireshark dissector: on Debian, apt-get install tshark. All else is tested."

# PostgreSQL, for the tests of outboxes and inboxes, which start one of their own. The tests skip it if it is missing.
.PHONY: postgresql
postgresql: | java browser tshark
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && exit 0; \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null; } \
	  || echo "No PostgreSQL was found to keep outboxes and inboxes in: on Debian, apt-get install postgresql. All else is tested."

# The demo leaves its files in ./demo, which the next one empties. It needs less than the tests do.
demo: $(VENV)/.demo java
	$(BIN)/python -m examples.demo --directory demo

$(VENV)/.demo: pyproject.toml | $(VENV)/.pip
	@test $(VENV)/.ready -nt pyproject.toml || $(BIN)/python scripts/install.py pip '.[cli,spark]' --group demo
	@touch $@

# Three parts side by side, as Spark waits and coverage runs in one process; each says
# at its end what it has to say, and the suite as it goes on. It leaves out `make loops`, `make tck`, `make thorough`.
test:
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.compiled browser tshark postgresql
	@$(MAKE) --no-print-directory --jobs=3 --keep-going --output-sync=target suite core check

# At most a minute on two cores, without network and Java: between two edits, not instead of `make test`. The core's tests but
# the one that runs the kernel's a second time, asyncio's for the calls of every day, and the types of what no commit has.
ADAPTER = $(addprefix tests/adapters/test_,connecting.py flush.py handlers.py instance.py listening.py messages.py queues.py requests.py retained.py streams_data.py streams_publisher.py streams_subscriber.py)
CHANGED = { git diff --name-only --diff-filter=d HEAD -- '*.py' && git ls-files --others --exclude-standard -- '*.py'; } 2>/dev/null
quick: $(VENV)/.ready
	$(BIN)/python -m pytest -q -n 2 --hypothesis-profile=watched -m 'core and not thorough' tests/wire tests/node tests/patterns tests/reactive
	$(BIN)/python -m pytest -q -n 2 -m 'not loops and not tck and not thorough' -k asyncio $(ADAPTER)
	@if changed=$$($(CHANGED)); then test -z "$$changed" || $(BIN)/mypy $$changed; else $(BIN)/mypy; fi

# All tests but those of the core that are watched, and what has a target of its own. Four processes: half of them wait.
# The output of a line with `+` is not held back until it ends, and it would run for `make -n`, too.
# It keeps what failed in a cache of its own, which `make again` reads.
PYTEST_SUITE = $(BIN)/python -m pytest -q -o cache_dir=.pytest_cache/suite -m 'not core and not loops and not turns and not tck and not thorough and not typed'
SUITE = $(PYTEST_SUITE) -n 4
suite: $(VENV)/.ready
	+$(if $(findstring n,$(firstword -$(MAKEFLAGS))),@echo "$(SUITE)",$(SUITE))

# Runs the tests that failed in the last `make suite`, one after the other. It fails where none is known.
again: $(VENV)/.ready
	$(PYTEST_SUITE) --last-failed --last-failed-no-failures none

# The tests that must run every line and every branch of tolliver_proto.
core: $(VENV)/.ready
	$(BIN)/python scripts/coverage_core.py

# The tests of the adapters, watched, which costs them half as much again: is each line run that can be?
coverage: $(VENV)/.ready
	$(BIN)/python scripts/coverage_adapters.py -n 2

# The adapters on uvloop and trio, Twisted over asyncio, and every pair of them.
loops: $(VENV)/.ready
	$(BIN)/python scripts/coverage_adapters.py --other-loops -n 2

# Tests of tests, planted places, Spark Connect: what changes seldom, or is shown in the large elsewhere; and properties,
# each with 500 examples.
thorough: $(VENV)/.ready java
	$(BIN)/python -m scripts.prove.counted V4 -n 2

# Simulated networks on all cores; the first that fails is shrunk to a short trace.
SCHEDULES ?= 10000
simulate: $(VENV)/.ready
	$(BIN)/python -m scripts.prove.simulate $(SCHEDULES)

# The same for networks of the Reactive Streams protocol.
simulate-reactive: $(VENV)/.ready
	$(BIN)/python -m scripts.prove.simulate --reactive $(SCHEDULES)

# The rules of Reactive Streams over engines and adapters, under the names of the JVM's conformance kit.
tck: $(VENV)/.ready
	$(BIN)/python -m scripts.prove.tck -n 2

# kill -9 of real senders and receivers on all cores, then compare sets.
soak: KILLS ?= 10000
soak: $(VENV)/.ready
	$(BIN)/python -m scripts.prove.kills messages $(KILLS)

# Spark drivers with their JVMs, and stagers, are killed while messages come: nothing may be lost or there twice.
spark-soak: KILLS ?= 20
spark-soak: $(VENV)/.ready java
	$(BIN)/python -m scripts.prove.spark_soak $(KILLS)

# All fuzz targets for so long in all; what reaches new edges is kept in fuzz/corpus, a crash in fuzz/crashes.
MINUTES ?= 10
fuzz: $(VENV)/.ready
	$(BIN)/python -m scripts.prove.fuzz $(MINUTES)

# Everything that must hold, or ROWS="V7 V8" of it, in some hours; writes docs/proof.md.
proof: $(VENV)/.ready java tshark
	$(PIP_INSTALL) --group mutation
	$(BIN)/python -m scripts.prove $(ROWS)

# The way of a message, compiled from the same sources, into build/compiled: a wheel, and a copy of everything to run tests in.
# It takes a C compiler and three minutes of a core. `make compiled-test` builds it and runs on it what must be alike: the
# core's tests, the vectors among them, asyncio's tests of the calls of every day and of wrong ones, those of TLS, and
# traces of simulated networks.
# With OPTIMIZE=0 the C compiler takes half the time; the modules are slower then.
# `make compiled-fuzz` fuzzes the build that is there, each target for a minute; a crash is kept in its fuzz/crashes.
.PHONY: compiled compiled-test compiled-suite compiled-fuzz compiled-bench compiler
ON_COMPILED = cd build/compiled/tree && TOLLIVER_REQUIRE_COMPILED=1 PYTHONPATH=$$PWD:$$PWD/transports $(abspath $(BIN))/python -m
compiled: $(VENV)/.build compiler
	$(BIN)/python -m scripts.compiled $(if $(OPTIMIZE),--optimize $(OPTIMIZE))

$(VENV)/.build: pyproject.toml | $(VENV)/.pip
	$(PIP_INSTALL) --editable '.[build]'
	@touch $@

compiled-test: compiled $(VENV)/.ready
	@$(MAKE) --no-print-directory compiled-suite

# On the build that is there.
compiled-suite: $(VENV)/.ready
	$(ON_COMPILED) pytest -q -n 2 --hypothesis-profile=watched -m 'core and not thorough' tests/wire tests/node tests/patterns tests/reactive
	$(ON_COMPILED) pytest -q -n 2 -m 'not loops and not tck and not thorough' -k 'asyncio or tls' $(ADAPTER) tests/adapters/test_released.py tests/adapters/test_wrong_arguments.py tests/tls
	$(BIN)/python -m scripts.prove.traces build/compiled/tree --seeds 20

compiled-fuzz: MINUTES = 8
compiled-fuzz: $(VENV)/.ready
	$(ON_COMPILED) scripts.prove.fuzz $(MINUTES)

# Both builds in turns, beside others, with BENCH="--seconds 2" and other options of benchmarks/builds.py.
compiled-bench: $(VENV)/.ready
	cd build/compiled/tree && PYTHONPATH=$$PWD:$$PWD/transports $(abspath $(BIN))/python benchmarks/builds.py $(BENCH)

# A C compiler and Python's headers, for `make compiled` alone. Installed in the same way as a browser is.
HAS_COMPILER = command -v cc >/dev/null && test -e "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h"
compiler: $(BIN)/python
	@$(HAS_COMPILER) && exit 0; \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev python3-dev >/dev/null && $(HAS_COMPILER); } \
	  || { echo "No C compiler, or no headers of this Python, for the compiled build: on Debian, apt-get install gcc libc6-dev python3-dev. All else works without."; exit 1; }

# A wheel and a source archive in dist, built twice, checked and tried, with a bill of materials. AGAINST=COMMIT compares
# the public interface with that commit, else with the last release. Without [tool.tolliver] repository in pyproject.toml
# it is a candidate alone.
.PHONY: release changelog versions docs docs-serve
release: $(VENV)/.release
	$(BIN)/python -m scripts.release $(if $(AGAINST),--against $(AGAINST))

# The fragments of changelog.d become the section of this version in CHANGELOG.md, and go.
changelog: $(VENV)/.release
	$(BIN)/python -m towncrier build --yes --version "$$($(BIN)/python -c 'from scripts.release.__main__ import version; print(version())')"

# The site, with a reference out of the sources, in build/site; a warning is an error. docs-serve shows it.
docs: $(VENV)/.docs
	$(BIN)/python -m scripts.release.docs

docs-serve: $(VENV)/.docs
	$(BIN)/python -m scripts.release.docs --serve $(PORT)

$(VENV)/.docs: pyproject.toml | $(VENV)/.pip
	$(PIP_INSTALL) --editable '.[cli]' --group docs
	@touch $@

# A short suite with the lowest and the newest versions of the libraries, on each Python that is here.
versions: $(VENV)/.release
	$(BIN)/python -m scripts.release.versions

$(VENV)/.release: pyproject.toml | $(VENV)/.pip
	$(PIP_INSTALL) --editable '.[cli]' --group release
	@touch $@

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q -m "typed and not thorough" tests/test_types.py

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) interop/pyodide/node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis
