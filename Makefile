# Every target makes its own environment in .venv; nothing needs to be active or installed but Python >= 3.11.
PYTHON ?= python3
BIN := .venv/bin
DEMO := runs/demo
# Extra arguments for pytest, for example: make test ARGS="-n 2 -k laws"
ARGS ?=

# An unrelated environment must not leak into .venv.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test coverage stress lint docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.ready-run ## From a molecule to its free energies, and LDR on a Gaussian mixture; writes runs/demo
	@echo "Alanine dipeptide from nothing, in about two minutes, into $(DEMO)/alanine-dipeptide"
	@$(BIN)/boltzkit run alanine-dipeptide --quick --effective 10000 --out $(DEMO)/alanine-dipeptide
	@echo "The Gaussian mixture at demo scale into $(DEMO)/gmm"
	@$(BIN)/boltzkit reproduce gmm --scale demo --out $(DEMO)/gmm
	@echo "Open $(CURDIR)/$(DEMO)/alanine-dipeptide/report.html and $(CURDIR)/$(DEMO)/gmm/report.html"

test: .venv/.ready-test ## Run the whole test suite
	@echo "Running the tests"
	@$(BIN)/python -m pytest $(ARGS)

coverage: .venv/.ready-test ## The same, and which lines of src it runs; fails below 90 %
	@echo "Running the tests, and counting lines"
	@$(BIN)/python -m pytest --cov --cov-report=term:skip-covered $(ARGS)

stress: .venv/.ready-test ## Kill, stop, starve and feed it rubbish for about an hour; writes results/reliability
	@echo "Making everything fail that can, into results/reliability"
	@rm -f results/reliability/ledger.jsonl
	@BOLTZKIT_KILLS=25 BOLTZKIT_FUZZ=10 BOLTZKIT_LEDGER=results/reliability \
	  $(BIN)/python -m pytest tests/reliability tests/robustness -n 2 $(ARGS)

lint: .venv/.ready-lint ## Check style, format and types
	@echo "Checking style, format and types"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

docs: .venv/.ready-docs ## Build the documentation into docs/_build
	@echo "Building the documentation"
	@$(BIN)/sphinx-build -q -E -W --keep-going -b html docs docs/_build
	@echo "Open $(CURDIR)/docs/_build/index.html"

clean: ## Remove the environment, the built documentation and caches (keeps runs/)
	@echo "Removing .venv, docs/_build and caches"
	@rm -rf .venv dist docs/_build docs/_api .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	@find src tests docs -name __pycache__ -type d -prune -exec rm -rf {} +

# .venv/.ready-EXTRA: the environment holds the package with that extra, at the versions of constraints.txt; the
# extra "run" is empty, so that the demo waits for nothing it does not need.
.venv/.ready-%: pyproject.toml constraints.txt
	@echo "Preparing .venv for '$*' (the first time takes a minute)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "boltzkit needs Python 3.11 or newer: try make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[$*]'
	@touch $@
