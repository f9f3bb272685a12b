# From a fresh clone: `make demo` shows what gradwatch does, `make test` runs all that CI
# runs. Both need Python 3.11 or later, git and a network, and make their own .venv.

PYTHON ?= python3
VENV ?= .venv
WHEEL_VENV ?= .venv-wheel
BACKENDS ?= tensorflow jax torch
JOBS ?= 2
# The CPU build is a third of the size. Where it does not exist (macOS, Windows on ARM):
# make test TENSORFLOW=tensorflow
TENSORFLOW ?= tensorflow-cpu
PYTEST_ARGS ?=
# Tests of numbers and bits that also run without the native sweep.
LEAN := $(addprefix tests/watch/test_,loop.py numbers.py untouched.py updates.py)
FAULTS_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
# The build backend comes from the constraints too, not from an isolated, unpinned build.
INSTALL_EDITABLE := $(PIP) --no-build-isolation --editable

# Quiet frameworks on the CPU, figures without a screen. A caller's own value wins.
export TF_CPP_MIN_LOG_LEVEL ?= 3
export CUDA_VISIBLE_DEVICES ?=
export MPLBACKEND ?= Agg
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1

.PHONY: help demo test lint types format suite browser frontend wheel test-wheel faults
.PHONY: bench clean docs
.DEFAULT_GOAL := help

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# The stamps: an environment is made once, and again when what it holds has changed.
$(VENV)/demo.stamp: constraints.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) hatchling editables ziglang
	$(INSTALL_EDITABLE) '.[plot]' $(TENSORFLOW)
	@touch $@

$(VENV)/test.stamp: $(VENV)/demo.stamp
	$(INSTALL_EDITABLE) '.[plot,jax,torch,dev]'
# Without its dependencies (tensorflow-text, a second TensorFlow, download clients):
# a backbone built from scratch imports these two only. Captum, which attributions are
# compared with, would bring a torch of its own choice; beside that it needs tqdm only.
	$(PIP) --no-deps keras-hub regex tokenizers captum tqdm
	@touch $@

# The site is made from text: it needs neither a backend nor gradwatch installed.
$(VENV)/docs.stamp: constraints.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) $$($(BIN)/python -c "import tomllib; \
	  extras = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; \
	  print(*extras['docs'])")
	@touch $@

demo: $(VENV)/demo.stamp ## Plant a fault in a network, find it, and repair it.
	$(BIN)/gradwatch demo

test: lint types docs suite test-wheel ## All that CI runs. BACKENDS="tensorflow" narrows it.
	@echo "make test: everything passed ($(BACKENDS))."

lint: $(VENV)/test.stamp ## Check style and format.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/test.stamp ## Put style and format right where a tool can.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/test.stamp ## Type-check the package, strictly.
	$(BIN)/mypy

# Every backend runs, also after one has failed: a fault on all three looks different
# from a fault on one.
# What needs no framework runs once, and proves that it needs none.
suite: $(VENV)/test.stamp browser ## Run the tests, examples and docstrings on each backend.
	@failed=; echo "== suite without a framework"; \
	$(BIN)/python -m pytest -q -n $(JOBS) --dist loadgroup --without-framework \
	  $(PYTEST_ARGS) || failed=" no framework"; \
	for backend in $(BACKENDS); do \
	  echo "== suite on $$backend"; \
	  KERAS_BACKEND=$$backend $(BIN)/python -m pytest -q -n $(JOBS) \
	    --dist loadgroup -m 'not frameworkless' $(PYTEST_ARGS) \
	    || failed="$$failed $$backend"; \
	  echo "== watching on $$backend without the native sweep"; \
	  GRADWATCH_NATIVE=0 KERAS_BACKEND=$$backend $(BIN)/python -m pytest -q \
	    -n $(JOBS) --dist loadgroup $(LEAN) $(PYTEST_ARGS) \
	    || failed="$$failed $$backend (lean)"; \
	done; \
	test -z "$$failed" || { echo "make suite: failed on$$failed."; exit 1; }

# The tab of TensorBoard and the report are tested in a real browser. Where it cannot be
# had, these tests are skipped with a loud line; with CI set, they fail.
browser: ## Install Chromium by the system's packages, if it is missing and one may.
	@for name in $$CHROMIUM chromium chromium-browser google-chrome chrome; do \
	  command -v "$$name" > /dev/null && exit 0; done; \
	if [ "$$(id -u)" != 0 ]; then echo "make browser: no Chromium, and not root."; \
	elif command -v apt-get > /dev/null; then \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; \
	elif command -v dnf > /dev/null; then dnf install -y -q chromium; \
	elif command -v apk > /dev/null; then apk add --quiet chromium; \
	elif command -v pacman > /dev/null; then pacman -S --noconfirm --quiet chromium; \
	else echo "make browser: no Chromium, and no package manager that is known."; \
	fi || echo "make browser: Chromium could not be installed."

# A dead link, a page that is not listed, a public name without a page, and anything that
# the pages would fetch from elsewhere each fail it.
docs: $(VENV)/docs.stamp ## Build the documentation into site/; warnings are errors.
	$(BIN)/python docs/check.py
	rm -rf site
	$(BIN)/zensical build --clean --strict
	$(BIN)/python docs/check.py site
	@echo "make docs: site/index.html"

# What it builds is committed: only those who change the frontend need Node.
frontend: $(VENV)/test.stamp ## Build the script of the pages from frontend/ (needs Node).
	$(BIN)/python frontend/palette.py
	cd frontend && npm ci --no-audit --no-fund && npm run check && npm run build

# The wheel is built from the source distribution, which so is tested as well.
wheel: $(VENV)/test.stamp ## Build dist/*.whl.
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist . > /dev/null
	@ls dist

# A fresh environment gets the wheel and what the wheel asks for; the backends and pytest
# are borrowed from .venv through a .pth file, which does not see the editable install.
# It runs in an empty directory, where the sources are out of reach.
test-wheel: wheel ## Install the wheel in a fresh environment and test it there.
	rm -rf $(WHEEL_VENV)
	$(PYTHON) -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install --quiet --constraint constraints.txt dist/*.whl
	@site='import sysconfig; print(sysconfig.get_path("purelib"))'; \
	$(BIN)/python -c "$$site" > "$$($(WHEEL_VENV)/bin/python -c "$$site")/borrowed.pth"
	@root=$$PWD; empty=$$(mktemp -d); trap 'rm -rf "$$empty"' EXIT; cd "$$empty"; \
	for backend in $(BACKENDS); do \
	  echo "== wheel on $$backend"; \
	  KERAS_BACKEND=$$backend "$$root/$(WHEEL_VENV)/bin/python" -m pytest -q \
	    -p no:cacheprovider "$$root/tests/wheel" || exit 1; \
	done

# Seeds up to 5 served to find families and rules; from 6 on they are counted.
faults: $(VENV)/test.stamp ## Train the fault suite; print how often the rules are right.
	@for backend in $(BACKENDS); do \
	  KERAS_BACKEND=$$backend $(BIN)/python -m bench.faults \
	    --jobs $(JOBS) $(FAULTS_ARGS) || exit 1; done

bench: $(VENV)/test.stamp ## Run the benchmarks in bench/.
	@for file in bench/[a-z]*.py; do name=$$(basename $$file .py); \
	  echo "== bench/$$name"; $(BIN)/python -m bench.$$name || exit 1; done

clean: ## Remove what was built, but keep .venv (its downloads are large).
	rm -rf dist site .cache $(WHEEL_VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples bench -name __pycache__ -type d -prune -exec rm -rf {} +
