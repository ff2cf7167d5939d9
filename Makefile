# Everything runs in .venv; `make setup` builds it once and again only when the requirements change.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test check bench bench-page results-page docs clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	$(BIN)/alteraser warm-up
	touch $@

demo: setup
	$(BIN)/alteraser demo --out demo --force

test: setup
	$(BIN)/python -m pytest

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python -m benchmarks

bench-page: setup
	$(BIN)/python -m benchmarks page

results-page: setup
	$(BIN)/python -m studies page

docs: setup
	$(BIN)/python docs/commands.py

clean:
	rm -rf .venv demo
