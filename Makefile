# Each target sets up what it needs; nothing has to be done before any of them.
#   make demo    the whole system once, on this machine
#   make test    everything that has to pass
#   make check   style, types, contracts, and the tests that start no process
#   make docs    the documentation as a site, in docs/_build/html

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/pip --quiet --disable-pip-version-check
PYTEST := $(BIN)/pytest --dist worksteal
# Python keeps what it has compiled, whatever the environment says: tests start it a thousand times.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check docs lint unit quick coverage benchmarks clean

demo: .venv/run
	$(BIN)/forebay demo

# Several things at once where none uses both cores: packages are unpacked, kernels compiled and types checked.
test:
	$(MAKE) --no-print-directory --jobs=3 .venv/kernels .venv/debian lint
	$(MAKE) --no-print-directory unit

check: .venv/kernels
	$(MAKE) --no-print-directory --jobs=2 lint quick

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: .venv/dev .venv/kernels .venv/debian
	$(PYTEST) -n 3 --durations=20  # on two cores, as tests that start processes often wait for them

quick: .venv/dev .venv/kernels
	$(PYTEST) -n 3 -q --hypothesis-profile=quick --no-processes --ignore=tests/system --ignore=tests/docs/test_commands.py

# The site, in docs/_build/html: every warning is an error, and every link inside it is checked.
docs: .venv/docs
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --fresh-env -j auto -b html \
		-d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python docs/links.py docs/_build/html

# The same as unit, slower, and which lines no test runs.
coverage: .venv/dev .venv/debian
	$(PYTEST) -n 2 --cov=forebay --cov-report=term-missing:skip-covered

# Each prints ratios against a peer measured in the same run; none is a test.
benchmarks: .venv/dev
	for script in benchmarks/[a-z]*_*.py benchmarks/startup.py; do $(BIN)/python $$script || exit 1; done

# What is installed, by purpose: to run Forebay, to build its documentation, or to work on it.
.venv/run .venv/docs .venv/dev: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Forebay needs Python 3.11 or newer; $(PYTHON) is older. Name another: make PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
		{ echo "$(PYTHON) cannot make virtual environments. On Debian: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) install -c constraints.txt hatchling editables
	$(PIP) install --no-compile -c constraints.txt --no-build-isolation -e '.[$(patsubst run,all,$(@F))]'
	$(if $(filter .venv/dev,$@),$(BIN)/python -m compileall -qq -j 2 -x '/tests?/' .venv/lib || true  # some packages bring files that are not for this Python)
	touch $@ .venv/run

# Kernels are compiled ahead, as tests on two cores would each compile them.
.venv/kernels: .venv/dev
	$(BIN)/forebay compile
	touch $@

# What some tests start, where it can be installed; where it can't, they are skipped and say so.
DEBIAN := postgresql fio fuse3 ceph-mon ceph-osd ceph-mds ceph-fuse ceph-common attr \
	btrfs-progs xfsprogs e2fsprogs lvm2 nvme-cli nbdkit libnbd-bin qemu-system-x86 \
	mpich libmpich-dev slurm-wlm munge lua5.1 lua-socket lua-cjson chromium openssl prometheus
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
