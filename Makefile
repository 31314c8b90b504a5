# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-zA-Z0-9_-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  \033[1m%-22s\033[0m %s\n", $$1, $$2}'

# The stamp makes a second call cost nothing; it is remade when what it installs changes.
STAMP := $(VENV)/.installed
.PHONY: install
install: $(STAMP) ## Make .venv with the light half (CLI, operator) and the development tools
$(STAMP): pyproject.toml trainer_image/requirements/cpu.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "split-ppo needs Python 3.11 or newer; this is %d.%d. Say which one to use: make install PYTHON=python3.11" % v[:2])'
	@echo "making $(VENV) with the command line tool, the operator and the development tools (10 s to a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(sed -n 's/^ *"\(uv==[^"]*\)".*/\1/p' pyproject.toml)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --constraint trainer_image/requirements/cpu.txt --editable '.[dev]'
	@touch $@

.PHONY: generate
generate: install ## Write the CRD, the JSON schema and the reference pages from the types
	@$(BIN)/python -m split_ppo.api.generate
	@$(BIN)/python tools/chart_readme.py

.PHONY: verify
verify: install ## Fail when a generated file differs from what the types say
	@$(BIN)/python -m split_ppo.api.generate --check
	@$(BIN)/python tools/chart_readme.py --check

.PHONY: lint
lint: install ## ruff, mypy (strict) and the import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

.PHONY: format
format: install ## Let ruff mend what it can
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

.PHONY: test-unit
test-unit: install ## The tests that need neither a cluster nor the trainer's stack
	@$(BIN)/pytest tests/unit

.PHONY: test
test: install ## Everything that CI runs; installs and builds what it needs
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint verify test-unit
	@$(MAKE) --no-print-directory install-trainer test-chart test-side-by-side

.PHONY: clean
clean: ## Remove .venv and what the tools left in the checkout
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist

include $(wildcard make/*.mk)
