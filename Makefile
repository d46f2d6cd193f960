# Two commands do all the set-up: `make run` and `make test`. `make help` lists the rest.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

# Later installs into this environment obey the pins too, so nothing swaps torch.
export PIP_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Models that the tests look into. They are all Python, and would bring torchvision and what it pins.
FOREIGN := timm x-transformers einops einx frozendict loguru torch-einops-utils

# Hundreds of processes import what is compiled once.
unexport PYTHONDONTWRITEBYTECODE

# All tests run in two processes; whichever is done takes over from the other.
WORKERS := -n 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help run test check docs docs-serve notebook page bench fuzz format clean

help:  ## List these commands.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1 | \2/p' $(MAKEFILE_LIST) | awk -F' [|] ' '{ printf "%-17s %s\n", $$1, $$2 }'

run: $(READY)  ## Set up, then train a small translator and show its attention.
	@echo "training on 10,000 short English-French pairs; Ctrl-C saves"
	@$(BIN)/regard train translate
	@echo "  regard train translate model.attention=none     the same without attention (docs/results/translate.md)"
	@echo "  regard train translate data.pairs=mine.tsv      your own pairs"
	@echo "  regard predict translate-en-de \"A man is riding a bicycle.\"      a trained Transformer"
	@echo "  regard look copy \"01101001 11110000\" -o tape.png                    a Neural Turing Machine at work"
	@echo "  regard look tsp \"0.1,0.2 0.9,0.1 0.5,0.5 0.8,0.9 0.2,0.8\" -o tour.png  a pointer network on a round trip"
	@echo "  regard serve                                     all of it on a page: pick a model, and see what it attends to"
	@echo "  for f in examples/*.py; do python \$$f; done     five short scripts"
	@echo "where regard and python are those of $(BIN)"

test: $(READY)  ## Set up, then lint, types and all tests that need no GPU.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@for each in chromium chromium-browser google-chrome; do command -v $$each >/dev/null && exit 0; done; echo "make: there is no Chromium, so the page is not tested in a browser (on Debian and Ubuntu: apt install chromium)"
	@command -v npm >/dev/null || echo "make: there is no npm, so the built page is not compared with its source"
	$(BIN)/python -m pytest $(WORKERS)
	$(BIN)/python -m pytest $(WORKERS) -o addopts= -q -m compiled

check: $(READY)  ## The fast loop: lint, types and tests/test_tiny.py, under 30 s.
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest tests/test_tiny.py

docs: $(READY)  ## Build the documentation into site/, without a network; a broken link is an error.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(READY)  ## Show the documentation, and build it anew at each change.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

notebook: $(READY)  ## Run the notebook of the quickstart, and store what its cells print.
	@$(BIN)/python docs/hooks/notebook.py docs/quickstart.ipynb

page:  ## Check, test and build the page of regard serve; needs Node 20 or newer.
	@command -v npm >/dev/null || { echo "make: npm was not found; the page is built with Node 20 or newer (on Debian and Ubuntu: apt install nodejs npm). Its build comes along in regard/view/page/: without a change in page/ nobody needs Node"; exit 1; }
	cd page && npm ci --no-audit --no-fund
	cd page && npm run check
	cd page && npm test
	cd page && npm run build

bench: $(READY)  ## Measure every claim of speed.
	$(BIN)/python -m benchmarks

fuzz: $(READY)  ## Two minutes of random calls against an independent float64 program.
	$(BIN)/python -m benchmarks fuzz --seconds 120

format: $(READY)  ## Put imports and lines in order.
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

clean:  ## Remove caches and build files; .venv and runs/ stay.
	@rm -rf build dist site .hypothesis .mypy_cache .pytest_cache .ruff_cache *.egg-info
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

# The environment is ready until the dependencies change.
$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) was not found; regard needs Python 3.11 or newer (make PYTHON=...)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make: regard needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0] + " (make PYTHON=...)")'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) has no venv module; install it (on Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	@echo "installing into .venv (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m pip install --quiet --no-deps -c constraints.txt $(FOREIGN) || echo "make: timm and x-transformers were not found, so the tests that look into their models are skipped"
	@touch $@
