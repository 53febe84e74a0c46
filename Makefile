# Everything a newcomer needs: Python 3.11+, pip and make. `make demo`, `make test`; `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
OTHERS := .venv-others
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --constraint constraints.txt
# Files whose SHA-256 is listed, and nothing that they need beyond these; torch, which is not among them, comes with the
# package itself, by its version (CONTRIBUTING.md says why).
LOCKED := $(PIP) install --require-hashes --no-deps --requirement
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help install demo check format test test-slow test-gpu bench bench-gpu bench-selection bench-others bench-tables bench-fashion paper docs site lock clean

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "squad-torch needs Python 3.11 or newer; '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)." \
	       "Name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The stamps make a second run install nothing; a change of these files installs again.  The build tools are locked and
# installed first, because pip would fetch the newest ones for an isolated build.
$(VENV)/installed: $(VENV)/created pyproject.toml constraints.txt requirements.lock
	$(LOCKED) requirements.lock
	$(INSTALL) --no-build-isolation --editable .
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed requirements-dev.lock
	$(LOCKED) requirements-dev.lock
	$(INSTALL) --no-build-isolation --editable '.[dev]'
	$(PIP) check
	@touch $@

install: $(VENV)/installed ## the package and what it needs, in .venv

demo: $(VENV)/installed ## train SQUAD and its baselines on handwritten digits, certify it, and write a report
	$(BIN)/squad demo

check: $(VENV)/installed-dev ## formatting, lint, types, import direction, rules of the house, documentation examples
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_house.py
	$(PYTEST) -q tests/test_private_names.py README.md docs src

format: $(VENV)/installed-dev ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(VENV)/installed-dev ## the fast suite
	$(PYTEST) --numprocesses auto --dist loadfile tests --ignore tests/slow --ignore tests/gpu

test-slow: $(VENV)/installed-dev ## simulations of guarantees, the noise battery, figures, the C++ compiler, the report in a browser
	$(PYTEST) tests/slow

test-gpu: $(VENV)/installed-dev ## what needs a GPU
	$(PYTEST) tests/gpu

bench: $(VENV)/installed-dev ## measure speed on the CPU, into benchmarks/results (under 5 minutes)
	$(BIN)/python -m benchmarks.import_time
	$(BIN)/python -m benchmarks.noise
	$(BIN)/python -m benchmarks.op_bins
	$(BIN)/python -m benchmarks.op_cpu
	$(BIN)/python -m benchmarks.step_cpu
	$(BIN)/python -m benchmarks.predict_samples
	$(BIN)/python -m benchmarks.metrics_speed
	$(BIN)/python -m benchmarks.busy_neighbour
	$(BIN)/python -m benchmarks.predict_precision
	$(BIN)/python -m benchmarks.plot

bench-selection: $(VENV)/installed-dev ## simulate the guarantees of selection, into benchmarks/results (half an hour)
	$(BIN)/python -m benchmarks.certify_coverage
	$(BIN)/python -m benchmarks.certify_validity
	$(BIN)/python -m benchmarks.certify_samples
	$(BIN)/python -m benchmarks.plan_power
	$(BIN)/python -m benchmarks.attempts
	$(BIN)/python -m benchmarks.calibration_rows
	$(BIN)/python -m benchmarks.leakage
	$(BIN)/python -m benchmarks.novelty
	$(BIN)/python -m benchmarks.recalibration_rows
	$(BIN)/python -m benchmarks.intervals
	$(BIN)/python -m benchmarks.plot

# Another library, so another environment; without its dependencies, as benchmarks/side_by_side/requirements.txt says.
$(OTHERS)/installed: $(VENV)/created pyproject.toml constraints.txt requirements.lock benchmarks/side_by_side/requirements.txt benchmarks/tables/requirements.txt
	$(PYTHON) -m venv $(OTHERS)
	$(LOCKED:$(BIN)/%=$(OTHERS)/bin/%) requirements.lock
	$(INSTALL:$(BIN)/%=$(OTHERS)/bin/%) --no-build-isolation --editable .
	$(INSTALL:$(BIN)/%=$(OTHERS)/bin/%) --no-deps --requirement benchmarks/side_by_side/requirements.txt
	$(INSTALL:$(BIN)/%=$(OTHERS)/bin/%) --no-deps --requirement benchmarks/tables/requirements.txt
	@touch $@

bench-others: $(OTHERS)/installed ## predict side by side with torch-uncertainty and plain PyTorch, in .venv-others
	$(OTHERS)/bin/python -m benchmarks.side_by_side

bench-tables: $(OTHERS)/installed ## train SQUAD and gradient boosting on public tables (an hour), in .venv-others
	OMP_NUM_THREADS=1 $(OTHERS)/bin/python -m benchmarks.tables

bench-gpu: $(VENV)/installed-dev ## measure on a GPU, into benchmarks/results (needs Fashion-MNIST)
	$(BIN)/python -m benchmarks.noise --device cuda
	$(BIN)/python -m benchmarks.op_gpu --device cuda
	$(BIN)/python -m benchmarks.step_gpu --device cuda
	$(BIN)/python -m benchmarks.svhn_epoch --device cuda
	$(BIN)/python -m benchmarks.validation_look --device cuda
	$(BIN)/python -m benchmarks.predict_samples --device cuda
	$(BIN)/python -m benchmarks.fashion_mnist --device cuda --members 10
	$(BIN)/python -m benchmarks.recalibration --device cuda
	$(BIN)/python -m benchmarks.search_population --device cuda

bench-fashion: $(VENV)/installed-dev ## train SQUAD on Fashion-MNIST on the CPU (minutes; needs the data set)
	$(BIN)/python -m benchmarks.fashion_mnist

paper: $(VENV)/installed-dev ## tables and figures of the paper from the committed records (python -m experiments.paper --help)
	$(BIN)/python -m experiments.paper all --from-records

docs: $(VENV)/installed-dev ## write what README.md and docs/ show from the demo and the records
	$(BIN)/python -m docs.write

site: $(VENV)/installed-dev ## build the documentation site in docs/_build/html, run its gallery and check its links
	rm -rf docs/_build docs/auto_gallery # a removed page or example must not linger
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python tools/check_site.py docs/_build/html

lock: $(VENV)/installed-dev ## write constraints.txt from what is installed, and the locks with their hashes from the index
	{ sed '/^[^#]/,$$d' constraints.txt; $(PIP) freeze --all --exclude-editable --exclude pip | sed 's/+cpu$$//'; } > constraints.new
	mv constraints.new constraints.txt
	$(BIN)/python tools/lock_hashes.py

clean: ## remove .venv and caches
	rm -rf $(VENV) $(OTHERS) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
