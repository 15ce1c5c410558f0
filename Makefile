# deltaberg. On a fresh machine with Python 3.10 to 3.13 and make:  make demo   and   make test
# Every target makes or refreshes its own virtual environment first; that is done once, until pyproject.toml changes.

VENV ?= .venv
# An interpreter in range with a working venv module; say `make PYTHON=/path/to/python ...` to choose another.
PYTHON ?= $(shell .ci/find-python)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
WORKERS ?= 2
# The fault campaign takes every n-th operation.
EVERY ?= 1
# A line of tests/engines/generations.json; nothing for the first, which the ordinary environment has.
GENERATION ?=
ENGINES_VENV := $(VENV)$(GENERATION:%=-%)

.DEFAULT_GOAL := help
.PHONY: help demo test test-quick test-engines campaign check format-check lint types format docs bench venv clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

demo: $(VENV)/.installed-demo ## convert real tables both ways and read them with other engines
	@$(BIN)/python examples/demo.py

test: $(VENV)/.installed-dev ## the whole suite; Spark reads too where there is Java
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadgroup

test-quick: $(VENV)/.installed-dev ## the suite without Spark
	@$(BIN)/pytest -q -n $(WORKERS) --dist loadgroup -m "not engines"

test-engines: $(ENGINES_VENV)/.installed-dev ## only what Spark reads; GENERATION=spark-3.5 takes other engines
	@DELTABERG_ENGINES="$(GENERATION)" $(ENGINES_VENV)/bin/pytest -q -n $(WORKERS) --dist loadgroup -m engines

campaign: $(VENV)/.installed-dev ## a fault at every (EVERY=7: every 7th) storage operation of every kind of conversion; prints its counts
	@DELTABERG_CAMPAIGN_EVERY="$(EVERY)" $(BIN)/pytest -q -n 0 -m campaign

check: format-check lint types ## formatting, lint and types, as CI does

format-check: $(VENV)/.installed-dev
	@$(BIN)/ruff format --check .

lint: $(VENV)/.installed-dev
	@$(BIN)/ruff check .

# The import root is one package, the folders stand at the top level: mypy sees them through links.
types: $(VENV)/.installed-dev
	@rm -rf .mypy_path && mkdir -p .mypy_path/deltaberg
	@for part in deltaberg/* iceberg delta translate migrate; do \
		ln -s "$(CURDIR)/$$part" ".mypy_path/deltaberg/$$(basename $$part)"; done
	@cd .mypy_path && MYPYPATH="$(CURDIR)/.mypy_path" "$(abspath $(BIN))/mypy" \
		--config-file "$(CURDIR)/pyproject.toml" --cache-dir "$(CURDIR)/.mypy_cache" -p deltaberg

format: $(VENV)/.installed-dev ## rewrite the sources as the format check wants them
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

docs: $(VENV)/.installed-dev ## write docs/cli.md and docs/codes.md again
	@$(BIN)/python docs/generate.py

bench: $(VENV)/.installed-dev ## files per second and peak memory beside PyIceberg and delta-rs
	@$(BIN)/python benchmarks/conversion.py

venv: $(VENV)/.installed-dev ## only the virtual environment

$(VENV)/bin/python:
	@if [ -z "$(PYTHON)" ]; then .ci/find-python --explain; exit 1; fi
	@echo "making $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv "$(VENV)"

$(VENV)/.installed-demo: pyproject.toml | $(VENV)/bin/python
	@echo "installing deltaberg and what the demo needs"
	@$(PIP) install -e '.[demo]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	@echo "installing deltaberg and what its tests need (PySpark is large: some minutes the first time)"
	@$(PIP) install -e '.[dev]'
	@touch $@ "$(VENV)/.installed-demo"

$(VENV)-%/.installed-dev: pyproject.toml tests/engines/generations.json
	@if [ -z "$(PYTHON)" ]; then .ci/find-python --explain; exit 1; fi
	@echo "making $(VENV)-$* with the PySpark of $*"
	@$(PYTHON) -m venv "$(VENV)-$*"
	@pyspark=$$($(PYTHON) -c 'import json, sys; print(*(each["pyspark"] for each in json.load(open(sys.argv[1])) \
		if each["name"] == sys.argv[2]))' tests/engines/generations.json "$*") && test -n "$$pyspark" && \
		"$(VENV)-$*/bin/python" -m pip --disable-pip-version-check --quiet install -e '.[tests]' "pyspark==$$pyspark"
	@touch $@

clean: ## remove the virtual environment and every cache
	@rm -rf "$(VENV)" "$(VENV)"-* .mypy_path .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
