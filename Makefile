# Everything starts from Python 3.11 or later and pip: `make demo`, `make test`, `make check`.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
DEMO_STAMP := $(VENV)/.ready-demo
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
WORKERS ?= 2

.PHONY: help demo test test-full check format servers trl oldest env clean

help: ## Show what there is to do.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(DEMO_STAMP) ## Train a small model on a real MCP server, on this CPU.
	$(BIN)/art models get smollm2-135m
	PATH="$(abspath $(BIN)):$$PATH" art train mcp "python -m mcp_server_time" --model smollm2-135m

test: $(STAMP) ## The quick tests.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-full: $(STAMP) servers trl ## The slow tests, whole demos, examples, training without data, real servers; writes test-results/.
	$(BIN)/art models get smollm2-135m
	$(BIN)/python tests/full/run.py

check: $(STAMP) ## Lint, format, types, layers.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP) ## Put the code in the project's format.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

servers: $(STAMP) ## Install the real MCP servers that the full tests talk to.
	$(BIN)/python -m tests.servers.install

trl: $(STAMP) ## Install TRL in an environment of its own, for the tests and the benchmark that compare with it.
	$(BIN)/python -m benchmarks.trl_environment

oldest: $(STAMP) ## Test LangGraph graphs with the oldest packages that are supported, in an environment of their own.
	$(BIN)/python -m tests.oldest.run

env: $(STAMP) ## Only make the environment.

clean: ## Remove the environment, caches and test results; runs and fetched models stay.
	rm -rf $(VENV) .venv-trl .venv-oldest .servers .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache test-results build *.egg-info

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Python 3.11 or later is needed, this is {sys.version.split()[0]}; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install -qq --upgrade pip

$(DEMO_STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -qq -c constraints.txt -e '.[demo]'
	touch $@

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install -qq -c constraints.txt -e '.[dev,demo]'
	touch $@ $(DEMO_STAMP)
