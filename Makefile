# What one does with muster. Needs Python 3.11 or newer with pip, and make; uses uv where it is on the PATH.
PYTHON ?= python3
JOBS ?= 2
PROFILE ?= short
VENV := .venv
BIN := $(VENV)/bin
# Folders whose modules import each other as scripts do.
SCRIPTS := bench bench/live bench/studies/fgd bench/studies/philly deploy
# Tests start many processes; each is faster with the byte code that the first one wrote.
unexport PYTHONDONTWRITEBYTECODE

UV := $(shell command -v uv 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help venv demo test check docs e2e again browser release release-check bench clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/.live ## a virtual environment with muster in it, and what it needs on a live cluster

demo: $(VENV)/.made ## five examples on an embedded cluster, step by step, with a report
	$(BIN)/muster demo

test: $(VENV)/.dev ## all tests but those against a real control plane; PROFILE=long: more examples per property
	HYPOTHESIS_PROFILE=$(PROFILE) $(BIN)/pytest -q -n $(JOBS) --dist worksteal --ignore=tests/live --ignore=tests/browser

check: $(VENV)/.dev ## ruff, mypy --strict, the direction of imports, the documentation with its links
	$(BIN)/ruff check src tests bench deploy docs
	$(BIN)/mypy --strict src
	$(BIN)/mypy --config-file tests/mypy.ini tests/live/*.py tests/live/hostile/*.py
	for folder in $(SCRIPTS); do \
	MYPYPATH=$$folder $(BIN)/mypy --config-file tests/mypy.ini tests/live/controlplane.py $$folder/*.py || exit 1; done
	$(BIN)/lint-imports
	$(MAKE) docs

docs: $(VENV)/.dev ## the documentation as a site in build/site; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

e2e: $(VENV)/.dev ## tests against a real control plane, which is built once from source (needs Go)
	result=0; \
	$(BIN)/pytest -q tests/live -m "not alone" -n $(JOBS) --dist loadfile || result=1; \
	$(BIN)/pytest -q tests/live -m alone || result=1; \
	exit $$result

again: $(VENV)/.dev ## the tests that failed the last time, one at a time
	HYPOTHESIS_PROFILE=$(PROFILE) $(BIN)/pytest -q --last-failed --last-failed-no-failures none --ignore=tests/browser

browser: $(VENV)/.browser ## tests of the pages in chromium (on the PATH); screenshots are in build/screenshots
	$(BIN)/pytest -q tests/browser

release: $(VENV)/.dev ## wheel, sdist, SBOM and checksums of the last commit in dist/
	$(BIN)/python deploy/release.py

release-check: $(VENV)/.dev ## the release is reproducible, and its wheel runs on every supported Python that is found
	$(BIN)/python deploy/release_check.py

bench: $(VENV)/.live ## how fast it is, on this machine
	$(BIN)/muster bench

clean: ## forget the virtual environment and the tools' caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
ifdef UV
	$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
else
	$(PYTHON) -m venv $(VENV)
endif

$(VENV)/.made: pyproject.toml | $(BIN)/python
ifdef UV
	$(UV) pip install --quiet --python $(BIN)/python --editable .
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
endif
	@touch $@

$(VENV)/.live $(VENV)/.dev $(VENV)/.browser: pyproject.toml | $(VENV)/.made
ifdef UV
	$(UV) pip install --quiet --python $(BIN)/python --editable '.[$(patsubst .%,%,$(@F))]'
else
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(patsubst .%,%,$(@F))]'
endif
	@touch $@
