# `make demo` and `make test` set themselves up; nothing else is needed before either.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: demo test lint unit benchmarks clean

demo: .venv/ready
	$(BIN)/forebay demo

test: lint unit

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: .venv/ready .venv/debian
	$(BIN)/pytest -n 2 --cov=forebay --cov-report=term:skip-covered

# Each prints ratios against a peer measured in the same run; none is a test.
benchmarks: .venv/ready
	for script in benchmarks/[a-z]*_*.py benchmarks/startup.py; do $(BIN)/python $$script || exit 1; done

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt hatchling editables
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $@

# What some tests start, where it can be installed; where it can't, they are skipped and say so.
.venv/debian: .venv/ready
	@if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get -qq update && apt-get -qq install --no-install-recommends postgresql || true; fi
	touch $@

clean:
	rm -rf .venv demo study-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
