# Each command makes the virtual environment and installs what it needs first.
PYTHON ?= python3
EXTRAS ?= dev
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test lint bench clean

demo: $(INSTALLED)        ## train 64 models on digits, attack them, say what leaks
	$(BIN)/leakscope demo

test: $(INSTALLED)        ## the whole test suite, on all cores
	$(BIN)/python -m pytest -q -n auto

lint: $(INSTALLED)        ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(INSTALLED)       ## speed, always as a ratio against a named rival in the same run
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf $(VENV) runs
