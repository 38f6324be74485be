# Each target sets .venv up by itself, with the exact versions of constraints.txt.
.DEFAULT_GOAL := help
.PHONY: help demo test check bench paper paper-run docs format clean

PYTHON ?= python3
BIN := .venv/bin
# The demo needs the package alone; everything else needs the development set-up too.
BASE := .venv/.base
READY := .venv/.ready
# Workers for the tests, a thread each, and each file to one of them, since its tests share what they set up;
# `make test WORKERS=0` runs them in one process.
WORKERS ?= 2
PYTEST_ARGS ?=
# Minutes after which `make paper-run` begins no further training.
BUDGET ?= 5

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(BASE) ## compare softmax, CRF and masked CRF on a built-in corpus, in under two minutes
	@$(BIN)/python -m maskedcrf demo

test: $(READY) ## every test that needs no GPU, no browser and no real corpus
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m "not gpu and not slow and not browser and not corpora" $(PYTEST_ARGS)

check: $(READY) ## format, lint, types, layers
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(READY) ## time the layer and the scorer against peers
	@$(BIN)/python -m pip install -qq --no-deps --upgrade --target carried --requirement benchmarks/peers.txt \
		|| echo "some peers cannot be installed: they are left out"
	@$(BIN)/python -m benchmarks
	@$(BIN)/python -m benchmarks.readme

paper: $(READY) ## docs/paper.md, its tables and figures, from the results in experiments/results
	@$(BIN)/python -m experiments.page

# MASKEDCRF_CORPORA names the folder of the corpora.
paper-run: $(READY) ## train what the results lack, beginning nothing after BUDGET minutes
	@$(BIN)/python -m experiments.run small large more --budget $(BUDGET)

docs: $(READY) ## build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(READY) ## rewrite the files as `make check` wants them
	@$(BIN)/ruff check --fix --quiet .
	@$(BIN)/ruff format --quiet .

clean: ## remove .venv and every cache
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage coverage.xml dist build
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} +

PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt

$(BASE): pyproject.toml constraints.txt
	@echo "setting up .venv (once, a few minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) --editable .
	@touch $@

$(READY): $(BASE)
	@echo "setting up the development tools (once, a few minutes)"
	@$(PIP) --editable '.[dev]'
	@$(PIP) --no-deps --upgrade --target .venv/peers allennlp flair  # files of theirs, for tests/compat
	@touch $@
