# `make demo`, `make test` and `make docs` set themselves up; nothing else is needed before any of them.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.PHONY: demo test docs lint unit coverage benchmarks clean

demo: .venv/ready
	$(BIN)/forebay demo

# Two things at once, for setting up and tests often wait.
test:
	$(MAKE) --no-print-directory --jobs=2 .venv/ready .venv/debian
	$(MAKE) --no-print-directory --jobs=2 lint unit

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: .venv/ready .venv/debian
	$(BIN)/pytest -n 2 --dist worksteal --durations=20

# The site, in docs/_build/html: every warning is an error, and every link inside it is checked.
docs: .venv/ready
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --fresh-env -j auto -b html \
		-d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python docs/links.py docs/_build/html

# The same, slower, and which lines no test runs.
coverage: .venv/ready .venv/debian
	$(BIN)/pytest -n 2 --dist worksteal --cov=forebay --cov-report=term-missing:skip-covered

# Each prints ratios against a peer measured in the same run; none is a test.
benchmarks: .venv/ready
	for script in benchmarks/[a-z]*_*.py benchmarks/startup.py; do $(BIN)/python $$script || exit 1; done

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt hatchling editables
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt --no-build-isolation -e '.[dev]'
	$(BIN)/python -m compileall -qq -j 2 .venv/lib || true  # some packages bring files that are not for this Python
	touch $@

# What some tests start, where it can be installed; where it can't, they are skipped and say so.
DEBIAN := postgresql fio fuse3 ceph-mon ceph-osd ceph-mds ceph-fuse ceph-common attr \
	btrfs-progs xfsprogs e2fsprogs lvm2 nvme-cli nbdkit libnbd-bin qemu-system-x86 \
	slurm-wlm munge lua5.1 lua-socket lua-cjson chromium openssl prometheus
.venv/debian: Makefile
	@mkdir -p .venv
	@if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "not root on Debian: tests that need one of $(DEBIAN) are skipped where it is not installed"; \
	elif ! dpkg -s $(DEBIAN) >/dev/null 2>&1; then \
		export DEBIAN_FRONTEND=noninteractive; apt-get -qq update; \
		apt-get -qq install --no-install-recommends $(DEBIAN) >/dev/null 2>&1 || for package in $(DEBIAN); do \
			apt-get -qq install --no-install-recommends $$package >/dev/null 2>&1 || \
			echo "$$package can't be installed: tests that need it are skipped"; done; fi
	touch $@

clean:
	rm -rf .venv docs/_build docs/reference docs/files demo study-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage
