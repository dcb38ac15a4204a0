# Two commands matter: `make demo` and `make test`. Both set up .venv on their first call and reuse it afterwards.

PYTHON ?= python3
# Passed to every pip install, e.g. to choose another index: CONTRIBUTING.md.
PIP_ARGS ?=
# Passed to `zeropower compare` by `make demo` and `make sweep`.
DEMO_ARGS ?=
# Passed to pytest by `make unit`.
PYTEST_ARGS ?=
# Test processes side by side, of two threads each.
WORKERS ?= 2

# Passed to the comparison by `make peers`.
PEERS_ARGS ?=

PY := .venv/bin/python
PEERS_PY := .venv-peers/bin/python
STAMPS_OF_PEERS := .venv-peers/stamps
STAMPS := .venv/stamps
ROOMS := core adapters conformance

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo sweep test test-all peers dialects lint types unit conformance clean sources

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(STAMPS)/run sources ## train a small language model with AdamW and with Muon, compare them
	$(call heading,zeropower compare)
	@.venv/bin/zeropower compare $(DEMO_ARGS)

sweep: $(STAMPS)/run sources ## the learning-rate sweep behind the demo's settings
	$(call heading,zeropower compare --sweep)
	@.venv/bin/zeropower compare --sweep $(DEMO_ARGS)

test: lint types unit conformance ## everything: linter, type checker, tests, conformance of every backend

lint: $(STAMPS)/test ## ruff: rules and format
	$(call heading,ruff)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

types: $(STAMPS)/test sources ## pyright, strict, against the installed package
	$(call heading,pyright)
	@$(PY) -m pyright --pythonpath $(PY)

unit: $(STAMPS)/test sources ## the tests of this repository; PYTEST_ARGS narrows them
	$(call heading,pytest)
	@$(PY) -m pytest --numprocesses $(WORKERS) $(PYTEST_ARGS)

conformance: $(STAMPS)/test sources ## one suite of laws over every backend
	$(call heading,conformance)
	@$(PY) -m zeropower.conformance --backend all -- --numprocesses $(WORKERS)
	@JAX_ENABLE_X64=1 $(PY) -m zeropower.conformance --backend jax -k "(any_recipe or optimizers_do) and float64" \
	  -- --numprocesses $(WORKERS)

test-all: test peers ## the same, and the dialects beside the other implementations

peers: $(STAMPS_OF_PEERS)/installed ## each dialect beside the implementation that it reproduces, in .venv-peers
	$(call heading,peers)
	@$(PEERS_PY) -W error -m zeropower.conformance.peers --require-all $(PEERS_ARGS)

dialects: ## docs/dialects.md anew, recipes and proofs
	@$(MAKE) peers PEERS_ARGS="--write docs/dialects.md"

clean: ## remove .venv and what was built; runs/ stays
	rm -rf .venv .venv-peers build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find $(ROOMS) tests -name __pycache__ -type d -exec rm -rf {} +

# ---- the environment ------------------------------------------------------------------------------------------

define heading
@printf '\n== %s ==\n' '$(1)'
endef

# $(call pip,ARGUMENTS): quiet while it works, its last words where it fails.
pip = { $(PY) -m pip --disable-pip-version-check install $(PIP_ARGS) --constraint constraints.txt $(1) \
  > $(LOG) 2>&1 || { tail -n 40 $(LOG); echo 'pip failed: its whole output is in $(LOG)'; exit 1; } >&2; }
LOG := .venv/install.log

# A strict editable install is a tree of links, file by file: type checkers and doctest see the public names, an
# edit is seen at once, a new file only after another install.
editable := --no-build-isolation --config-settings editable_mode=strict --editable

# What the link tree was made from. It changes with the files' names, the version, a moved checkout, a removed tree.
inventory = { pwd; ls -d build/__editable__.*; grep __version__ core/__init__.py; \
  find $(ROOMS) -type f ! -path '*/__pycache__/*' | LC_ALL=C sort; } 2>/dev/null

define install
$(call heading,installing zeropower[$(1)] into .venv (minutes on the first call; output in $(LOG)))
@$(call pip,setuptools)
@$(call pip,$(editable) '.[$(1)]')
@$(inventory) > $(STAMPS)/sources
endef

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "zeropower needs Python 3.11\
	 or newer, and '$(PYTHON)' is not; name one, as in: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv .venv
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/run: pyproject.toml constraints.txt | $(STAMPS)/venv
	$(call install,torch$(comma)cli)
	@touch $@

$(STAMPS)/test: pyproject.toml constraints.txt | $(STAMPS)/venv
	$(call install,dev)
	@touch $(STAMPS)/run $@

# The peers pull in what the project's own environment need not have. Not editable: only the two packages that run
# without their requirements come alone.
$(STAMPS_OF_PEERS)/installed: pyproject.toml constraints.txt $(shell find $(ROOMS) -type f -name '*.py' -o -name '*.npz')
	$(call heading,installing the peers into .venv-peers (a minute on the first call; output in .venv-peers/install.log))
	@test -x $(PEERS_PY) || $(PYTHON) -m venv .venv-peers
	@mkdir -p $(STAMPS_OF_PEERS)
	@$(call pip,setuptools)
	@rm -rf build/lib build/bdist.*
	@$(call pip,--no-build-isolation '.[peers]')
	@$(call pip,--no-build-isolation --no-deps --force-reinstall .)
	@$(call pip,--no-deps timm gram-newton-schulz)
	@touch $@

$(STAMPS_OF_PEERS)/installed: PY := $(PEERS_PY)
$(STAMPS_OF_PEERS)/installed: LOG := .venv-peers/install.log

sources: $(STAMPS)/run ## link the source files anew if their list changed; the others call it
	@$(inventory) | cmp -s - $(STAMPS)/sources || { echo 'the list of source files changed: linking anew'; \
	  rm -rf build/__editable__.*; $(call pip,--no-deps $(editable) .) && $(inventory) > $(STAMPS)/sources; }

comma := ,
