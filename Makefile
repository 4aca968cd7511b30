# Two commands do all the set-up: `make demo` runs the main job, `make test` passes the tests.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help venv demo test check format lock clean

help:            ## this list
	@grep -hE '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/'

demo: $(INSTALLED) ## the main job on embedded defaults: shard, train, evaluate, register, promote, translate over HTTP
	$(BIN)/dragoman demo

test: $(INSTALLED) ## the tests
	$(BIN)/pytest -q

check: $(INSTALLED) ## ruff and strict mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED) ## let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

venv: $(INSTALLED) ## the virtual environment with the locked versions

$(INSTALLED): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if (3, 11) <= v < (3, 13) else f"Dragoman needs Python 3.11 or 3.12, {sys.executable} is {v.major}.{v.minor}; say which: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

lock: $(INSTALLED) ## write what is installed to requirements.lock (a platform's own build marks, such as +cpu, left out)
	$(BIN)/python -m pip freeze --all --exclude-editable --exclude pip | sed -E 's/\+cpu$$//' > requirements.lock

clean:           ## everything that was made here, but for the virtual environment
	rm -rf artifacts .mypy_cache .ruff_cache .pytest_cache *.egg-info
