# Each command makes the virtual environment and installs what it needs first.
PYTHON ?= python3
EXTRAS ?= dev
VENV := .venv
RIVALS := .venv-rivals
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-rest test-all lint bench clean

# Tests that are slow, drive a browser or start a cluster; `make test` leaves them out.
REST := slow or browser or cluster

demo: $(INSTALLED)        ## train 64 models on digits, attack them, say what leaks
	$(BIN)/leakscope demo

test: $(INSTALLED)        ## the quick tests, on all cores: what to run after a change
	$(BIN)/python -m pytest -q -n auto --dist loadfile -m "not ($(REST))"

test-rest: $(INSTALLED)   ## what `make test` leaves out
	$(BIN)/python -m pytest -q -n auto -m "$(REST)"

test-all: test test-rest  ## every test

lint: $(INSTALLED)        ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(INSTALLED) $(RIVALS)/.installed  ## speed, always as a ratio against a named rival in the same run
	for script in $(filter-out benchmarks/against_rivals.py,$(wildcard benchmarks/*.py)); do \
		$(BIN)/python $$script || exit 1; done
	$(BIN)/python benchmarks/against_rivals.py --write

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	touch $@

# The tools we measure against want other versions of what we use, so they have an environment of their own.
$(RIVALS)/.installed: benchmarks/rivals/requirements.txt
	$(PYTHON) -m venv $(RIVALS)
	$(RIVALS)/bin/python -m pip install --quiet --upgrade pip
	$(RIVALS)/bin/python -m pip install --quiet --requirement $<
	touch $@

clean:
	rm -rf $(VENV) $(RIVALS) runs

.PHONY: reference
reference: $(INSTALLED)   ## docs/config.md and its JSON schema, from the settings themselves
	$(BIN)/leakscope config reference > docs/config.md
	$(BIN)/leakscope config schema > docs/config.schema.json
