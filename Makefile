# Everything runs from .venv in this folder; `make setup` makes it, and every other target depends on it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test test-long lint format docs bench bench-cards lock clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	PYTHON="$(PYTHON)" ./.ci/make-venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

demo: setup
	./.ci/demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: setup lint
	$(BIN)/pytest -m "not long"

# Slow runs, and the property tests of `make test` with new random examples.
test-long: setup
	BAYPLAN_SEARCH=1 $(BIN)/pytest

# What of the documentation is made by the program itself; tests hold it against drifting.
docs: setup
	$(BIN)/python -m bayplan.cli.reference > docs/reference/commands.md
	$(BIN)/python -m bayplan.report.schema docs/schema
	-$(BIN)/bayplan plan examples/workload.yaml --machine preset:dgx-h100 --kubelet-config examples/kubelet.yaml \
		--hugepages 1Gi=16 -o svg --quiet > docs/picture.svg
	$(BIN)/bayplan simulate preset:small --policy values,fgd,bestfit,pwr,random --seeds 1-5 -o svg --quiet > docs/cards.svg

bench: setup
	$(BIN)/python benchmarks/admission.py
	$(BIN)/python benchmarks/fleet.py
	$(BIN)/python benchmarks/reading.py
	$(BIN)/python benchmarks/simulate.py
	$(BIN)/python benchmarks/partitions.py

# What the card policy reaches beside its goals: the openb traces in ../shared/data, or a made one. About half an hour.
bench-cards: setup
	$(BIN)/python benchmarks/cards.py

# Renews the locked versions. uv is used for this alone and need not be installed otherwise.
lock:
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --output-file requirements.lock

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
