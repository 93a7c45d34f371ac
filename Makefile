# Each command makes the virtual environment and installs what it needs first.
PYTHON ?= python3
EXTRAS ?= dev
VENV := .venv
RIVALS := .venv-rivals
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-rest test-all lint docs reference lock bench clean

# Tests that are slow, drive a browser or start a cluster; `make test` leaves them out.
REST := slow or browser or cluster

demo: $(INSTALLED)        ## train 64 models on digits, attack them, say what leaks
	$(BIN)/leakscope demo

test: $(INSTALLED)        ## the quick tests, on all cores: what to run after a change
	$(BIN)/python -m pytest -q -n auto --dist loadfile -m "not ($(REST))"

# One process more than there are cores: these tests wait for clusters, browsers and other processes.
test-rest: $(INSTALLED)   ## what `make test` leaves out
	$(BIN)/python -m pytest -q -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist worksteal -m "$(REST)"

test-all: test test-rest  ## every test

lint: $(INSTALLED)        ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

lock: $(INSTALLED)        ## write down the version of every package in .venv, for others to install the same
	{ echo '# Every package of the development environment; written by `make lock`.'; \
	  $(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//'; } > requirements/dev.lock

docs: $(VENV)/.docs-installed  ## the documentation site, in build/site; a warning or a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

bench: $(INSTALLED) $(RIVALS)/.installed  ## speed, always as a ratio against a named rival in the same run
	for script in $(filter-out benchmarks/against_rivals.py,$(wildcard benchmarks/*.py)); do \
		$(BIN)/python $$script || exit 1; done
	$(BIN)/python benchmarks/against_rivals.py --write

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	touch $@ $(if $(findstring docs,$(EXTRAS)),$(VENV)/.docs-installed)

$(VENV)/.docs-installed: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

# The tools we measure against want other versions of what we use, so they have an environment of their own.
$(RIVALS)/.installed: benchmarks/rivals/requirements.txt
	$(PYTHON) -m venv $(RIVALS)
	$(RIVALS)/bin/python -m pip install --quiet --upgrade pip
	$(RIVALS)/bin/python -m pip install --quiet --requirement $<
	touch $@

clean:
	rm -rf $(VENV) $(RIVALS) runs build

reference: $(INSTALLED)   ## docs/config.md and its JSON schema, from the settings themselves
	$(BIN)/leakscope config reference > docs/config.md
	$(BIN)/leakscope config schema > docs/config.schema.json
