# On a machine that has only Python ≥ 3.11: `make demo`, `make test`.
# PYTHON names the interpreter that makes the environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test lint docs types contracts mutants study bench lock clean

demo: $(VENV)/.installed
	$(BIN)/fedrulefit demo --output fedrulefit-demo

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n auto --dist loadgroup

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# The documentation as a site: build/docs/index.html. A warning is an error.
docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --fresh-env \
	  --doctree-dir build/doctrees docs build/docs

# Do the tests notice small faults in core/ and privacy/? A survivor is an error, unless
# tests/mutants.toml explains it. More: make mutants MUTANTS="--file grid" (all of one file).
MUTANTS ?= --sample 200 --seconds 900
mutants: $(VENV)/.installed-dev
	$(BIN)/python -m tools.mutants $(MUTANTS)

# Longer statistical studies on the real data sets; see docs/real-data.md.
study: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m study -s

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.run

lock: $(VENV)/.installed-dev
	$(PIP) install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --upgrade --all-extras --no-annotate --no-header \
	  --python-version 3.11 pyproject.toml --output-file requirements.lock

clean:
	rm -rf $(VENV) fedrulefit-demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml requirements.lock | $(VENV)/bin/python
	$(PIP) install --quiet -c requirements.lock -e .
	touch $@

$(VENV)/.installed-dev: pyproject.toml requirements.lock | $(VENV)/bin/python
	$(PIP) install --quiet -c requirements.lock -e ".[dev]"
	touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml requirements.lock | $(VENV)/bin/python
	$(PIP) install --quiet -c requirements.lock -e ".[bench]"
	touch $@

$(VENV)/.installed-docs: pyproject.toml requirements.lock | $(VENV)/bin/python
	$(PIP) install --quiet -c requirements.lock -e ".[docs]"
	touch $@
