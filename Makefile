# Two commands do all the set-up: `make demo` runs the main job, `make test` passes the tests.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
# What runs, and what tests and checks it: a mark each, so that the demo installs only the first.
RUNTIME := $(VENV)/.installed
INSTALLED := $(VENV)/.installed-dev
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# As on a processor without AVX-512, where other kernels run and round otherwise (tests/another_processor.py).
PORTABLE := ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2
# The rooms whose results hang on how products round.
NETWORKS := $(addprefix tests/model/,alignment bundles decoding huggingface inference layers networks)
# What builds images, and the index of PyTorch's CPU builds.
BUILD ?= docker build
TORCH_INDEX ?=
# A worker takes whole files, those with the most tests first.
TWO_WORKERS := -n 2 --dist loadfile

.PHONY: help venv demo test quick test-portable test-ray test-long images check audit format defaults lock pin clean

help:            ## this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

demo: $(RUNTIME) ## the main job on embedded defaults: shard, train, evaluate, register, promote, translate over HTTP
	$(BIN)/dragoman demo

test: $(INSTALLED) ## the tests, on two cores; those of the pages where chromium is installed
	@command -v chromium chromium-browser >/dev/null || echo 'no chromium: the tests of the pages in a browser are skipped (Debian: apt-get install chromium; or CHROMIUM=PATH)'
	$(BIN)/pytest -q --hypothesis-profile=ci $(TWO_WORKERS)

test-portable: $(INSTALLED) ## the tests of the networks as an older processor computes
	$(PORTABLE) $(BIN)/python -m pytest -q $(TWO_WORKERS) -p tests.another_processor $(NETWORKS) --hypothesis-profile=ci

test-ray: $(INSTALLED) ## of the long tests the main job, a killed worker, and other programs' clients: real Ray, MLflow and HTTP
	$(BIN)/pytest -q -m long tests/test_end_to_end.py tests/test_what_stays.py tests/pipelines/test_train.py tests/pipelines/cluster/test_ray_train.py tests/services/jobs/test_ray_executor.py tests/clients -k "demo or queue_over or killed_worker or ray_train or real_head or clients_get"

test-long: $(INSTALLED) ## the tests that take over 3 CPU seconds each: real Ray, killed commands, nodes, signals, the notebook, a team's day
	$(BIN)/pytest -q -m long

images:          ## the images of docker-compose.yml
	for name in s3 mlflow endpoint train; do $(BUILD) --target $$name --tag dragoman-$$name --build-arg TORCH_INDEX=$(TORCH_INDEX) --file deploy/Dockerfile . || exit 1; done

check: $(INSTALLED) ## ruff, strict mypy, and who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

audit: $(INSTALLED) ## the locks against the list of known vulnerabilities
	PATH=$(abspath $(BIN)):$$PATH deploy/audit.sh

quick: $(INSTALLED) ## the tests of what changed since main, nearest first, in under a minute
	$(BIN)/python -m pytest -q -p tests.changed

format: $(INSTALLED) ## let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

defaults: $(INSTALLED) ## write the dataclasses' defaults into the commented files of conf/
	$(BIN)/python deploy/defaults.py

venv: $(INSTALLED) ## the virtual environment with the locked versions

$(RUNTIME): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if (3, 11) <= v < (3, 15) else f"Dragoman needs Python 3.11 to 3.14, {sys.executable} is {v.major}.{v.minor}; say which: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -r requirements.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	touch $@

$(INSTALLED): $(RUNTIME) requirements-dev.lock
	$(PIP) -r requirements-dev.lock
	touch $@

lock: $(INSTALLED) ## write what is installed to requirements.lock (to run) and requirements-dev.lock (to test and check)
	$(BIN)/python deploy/lock.py

pin:             ## ask the registry for the digests of the public images, into .env (needs docker)
	deploy/pin-images.sh

clean:           ## everything that was made here, but for the virtual environment
	rm -rf artifacts .mypy_cache .ruff_cache .pytest_cache *.egg-info
