# On a machine that has only Python ≥ 3.11: `make demo`, `make test`.
# PYTHON names the interpreter that makes the environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
UV := $(BIN)/python -m uv
# What an installation is made from: the version stands in the package.
INSTALLS := pyproject.toml requirements.lock src/fedrulefit/__init__.py

.PHONY: demo test lint docs types contracts mutants study bench lock clean
.PHONY: dist lowest

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

# The wheel, built from the source distribution, and tried in an environment of its own.
dist: $(VENV)/.installed-dev
	rm -rf dist
	$(UV) build --quiet --build-constraints requirements.lock --out-dir dist
	$(BIN)/python -m tools.dist dist

# The oldest versions that pyproject.toml allows, on the oldest Python: do tests of each part pass?
LOWEST := build/lowest
LOWEST_TESTS := $(addprefix tests/unit/,core estimators model privacy protocol study table) \
  tests/conformance/test_inprocess.py tests/docs/test_cli_help.py tests/statistics
lowest: $(VENV)/.installed-dev
	$(UV) pip compile --quiet --resolution lowest-direct --python-version 3.11 --extra dev \
	  --output-file $(LOWEST).txt pyproject.toml
	$(UV) venv --quiet --clear --python 3.11 $(LOWEST)
	$(UV) pip install --quiet --python $(LOWEST) -r $(LOWEST).txt -e .
	$(LOWEST)/bin/python -m pytest -q -n auto --disable-warnings $(LOWEST_TESTS)

# Do the tests notice small faults in core/ and privacy/? A survivor is an error, unless
# tests/mutants.toml explains it. More: make mutants MUTANTS="--file grid" (all of one file).
MUTANTS ?= --sample 200 --seconds 900
mutants: $(VENV)/.installed-dev
	$(BIN)/python -m tools.mutants $(MUTANTS)

# Against peers on the real data sets, see docs/real-data.md; a stopped run goes on.
study: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.real

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.run

lock: $(VENV)/.installed-dev
	$(UV) pip compile --quiet --universal --upgrade --all-extras --no-annotate --no-header \
	  --python-version 3.11 pyproject.toml --output-file requirements.lock

clean:
	rm -rf $(VENV) fedrulefit-demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(INSTALLS) | $(VENV)/bin/python
	$(PIP) install --quiet -c requirements.lock -e .
	touch $@

$(VENV)/.installed-dev: $(INSTALLS) | $(VENV)/bin/python
	$(PIP) install --quiet -c requirements.lock -e ".[dev]"
	touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: $(INSTALLS) | $(VENV)/bin/python
	$(PIP) install --quiet -c requirements.lock -e ".[bench]"
	touch $@

$(VENV)/.installed-docs: $(INSTALLS) | $(VENV)/bin/python
	$(PIP) install --quiet -c requirements.lock -e ".[docs]"
	touch $@
