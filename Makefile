# tierscope: make run measures and draws, make test checks. Both set up what they need.

# Of the command line or the environment: the Python to use, if not one of PATH.
PYTHON ?=
VENV := .venv
# PyTorch for loader pytorch and the tests of programs. pip installs it, as pip knows the builds of a site.
PROGRAMS := .venv-programs
TORCH :=
DLIO := dlio-benchmark==2.0.0
# Of MDS shards, without the clouds that its package also needs; some of it is older than
# what others need, so it is in a folder of its own.
MDS := mosaicml-streaming==0.13.0 'transformers<5' 'huggingface_hub<1' 'tokenizers<0.23' \
  requests regex safetensors torchvision Brotli python-snappy cramjam xxhash zstd catalogue
# Of the command line only: make test-programs WRITE=1 writes the table of programs anew.
WRITE :=
# Of the command line only: make chaos FAULTS=200 CHAOS='--seed 2'.
FAULTS :=
CHAOS :=
UV_VERSION := 0.13.8
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PLUGINS := $(wildcard workflow/plugins/*)
PARALLEL := --numprocesses=5 --no-loadscope-reorder
# Of the command line only: make run GFS=/mnt/nfs/me LFS=/var/tmp/me measures these two
# directories, as experiment NAME.
GFS :=
LFS :=
NAME := laptop
SIZED := $(if $(GFS)$(LFS),results/$(NAME)/experiment.yaml)
# Of Debian, for the tests on a real Slurm, of the explorer, and on real file systems.
TEST_PACKAGES := slurmctld slurmd slurm-client munge chromium chromium-driver \
  glusterfs-server fuse3 attr
PROFILES := $(notdir $(wildcard profiles/*))
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Looks for Pythons where the user does, not in an environment that may be half made.
ENVIRONMENT := PATH='$(subst $(CURDIR)/$(BIN):,,$(PATH))' sh workflow/scripts/environment.sh
# Why the environment is made anew: its programs hold its path, its packages are of one Python.
STALE := $(shell test ! -e $(VENV)/pyvenv.cfg || \
  $(ENVIRONMENT) stale $(VENV) '$(PYTHON)')
# Older versions of the project had a command of this name for pip to install.
FOREIGN := $(shell test ! -e $(BIN)/tierscope || \
  grep -qs tierscope_command $(BIN)/tierscope || echo stale)
# Hundreds of short processes follow: let them keep what they compile.
unexport PYTHONDONTWRITEBYTECODE
# Our scripts import what lies beside them.
unexport PYTHONSAFEPATH

.PHONY: setup run test check test-darshan test-programs test-pytorch programs-env coverage golden chaos \
  bench bench-small lint paper realfs-up realfs-down lock docs clean test-packages stale

# Set up and run the default experiment; figures in results/scale-model/figures.
# With GFS=DIRECTORY LFS=DIRECTORY it measures these, in results/laptop or results/NAME.
run: setup
ifdef SIZED
	@$(BIN)/python workflow/scripts/measure_two_directories.py '$(NAME)' '$(GFS)' '$(LFS)'
endif
	exec $(BIN)/python workflow/scripts/start_snakemake.py --profile local$(if \
	  $(SIZED), --configfile '$(SIZED)')

# Set up and run all tests, five at a time, as two of the processes wait for jobs.
test: setup test-packages
	pytest -q $(PARALLEL) --durations=20

# The quick part of it, three tests at a time, as few of them wait.
check: lint
	pytest -q --numprocesses=3 tests/unit workflow/plugins

# Say which lines no test runs, in whatever process; fails below 92 %.
coverage: setup test-packages
	rm -rf .coverage && mkdir .coverage
	coverage run -m pytest -q $(PARALLEL) $(TESTS)
	$(BIN)/python tests/tools/coverage_lines.py .coverage/data.*
	coverage combine --quiet
	coverage report --fail-under=92

# Write the golden numbers anew; the reason goes into CHANGELOG.md.
golden: setup
	TIERSCOPE_GOLDEN_RENEW=1 pytest -q -k test_numbers_are_golden tests/integration

# Let faults happen to tiny experiments, which takes an hour; FAULTS=200: more of them.
# What became of each is in results/chaos; fails if one lost or changed anything.
chaos: setup
	$(BIN)/python tests/tools/chaos.py $(if $(FAULTS),--faults $(FAULTS)) $(CHAOS)

# Run a tiny experiment with the Darshan runtime of a site.
test-darshan: setup
	@test -n "$(DARSHAN)" || { echo "which? make test-darshan DARSHAN=/path/to/libdarshan.so"; exit 1; }
	@$(BIN)/python -P workflow/scripts/tierscope/trace/darshan_probe.py "$(DARSHAN)"
	TIERSCOPE_DARSHAN="$(abspath $(DARSHAN))" pytest -q tests/darshan/test_real_darshan.py

# Run programs of PyTorch, TensorFlow and others under redirection. The first call installs
# PyTorch in an environment of its own, as pip finds it; TORCH=torch==2.13.0: this one.
# With WRITE=1 it writes what runs say of programs by others into tests/programs/README.md.
test-programs: setup programs-env
	$(if $(WRITE),TIERSCOPE_WRITE_CLIENTS=1 )pytest -q -rs --durations=5 tests/programs

# Compare the DataLoader of PyTorch with emulated runs, run loader pytorch on directories, and
# time the steps of a stand-in for a GPU.
test-pytorch: setup programs-env
	pytest -q -rs --durations=5 tests/pytorch

programs-env: $(PROGRAMS)/.ready

# What else programs need, such as TensorFlow and h5py, they have from $(VENV).
$(PROGRAMS)/.ready: requirements-programs.in $(VENV)/pyvenv.cfg
	$(BIN)/python -m venv --clear $(PROGRAMS)
	$(PROGRAMS)/bin/pip install --quiet -r $< $(TORCH)
	$(PROGRAMS)/bin/pip install --quiet --no-deps $(DLIO)
	$(PROGRAMS)/bin/pip install --quiet --no-deps --target $(PROGRAMS)/mds $(MDS)
	CDPATH= cd $(PROGRAMS)/lib/python3.*/site-packages && \
	  echo '$(CURDIR)/$(VENV)'/$${PWD#*/$(PROGRAMS)/} > tierscope.pth
	$(PROGRAMS)/bin/python -c 'import torch; print("PyTorch", torch.__version__)'
	touch $@

# Compare speed with peers and floors (BENCH=parsing: one); JSON in results/bench. Fails
# if work is not as much as expected or clocks disagree; missed goals are in the last lines.
# With OLD=COMMIT, BENCH=tracing also compares the tracer with that of a commit.
bench: setup
	TIERSCOPE_OLD_TRACER='$(OLD)' $(BIN)/python tests/benchmarks $(BENCH)

# Try every benchmark with small input, in a minute; fails if one does not run, or a
# reference did not do its work.
bench-small: setup
	$(BIN)/python tests/benchmarks --small $(BENCH)

lint: setup
	ruff check .
	ruff format --check .
	snakefmt --check Snakefile workflow/Snakefile workflow/rules
	find workflow/native tests -name '*.[ch]' | xargs clang-format --dry-run --Werror
	codespell
	@printf '%s\n' config/*.yaml | TIERSCOPE_GFS_ROOT=/gfs xargs -P 2 -I {} sh -c \
	  'found=$$(snakemake --lint --configfile {} 2>&1) || { echo "{}: $$found"; exit 1; }'

# Show every job of the paper's sweep and one submission; run and submit nothing.
paper: setup
	snakemake --profile fugaku --configfile config/paper.yaml --dry-run
	$(BIN)/python workflow/scripts/show_submission.py config/paper.yaml

# As root: make two real tiers on this machine for config/realfs.yaml, and remove them.
realfs-up realfs-down: realfs-%:
	resources/realfs/realfs.sh $*

setup: $(READY) $(PROFILES) $(BIN)/tierscope

# Compile once what else every rank would compile; the imports are a test, too.
$(READY): requirements.lock requirements-build.lock $(PLUGINS:%=%/pyproject.toml) \
    $(VENV)/pyvenv.cfg
	$(BIN)/pip install --quiet --require-hashes -r requirements-build.lock
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation \
	  --require-hashes -r $< || \
	  $(BIN)/pip install --quiet --no-build-isolation --require-hashes -r $<
	$(BIN)/pip install --quiet --no-deps --no-build-isolation $(PLUGINS:%=--editable %)
	@$(BIN)/python -m compileall -q workflow
	@$(BIN)/python -c \
	  'import mpi4py.MPI, pyarrow.parquet, seaborn, snakemake.cli, tensorflow' \
	  2> $(VENV)/import.log || { cat $(VENV)/import.log; exit 1; }
	touch $@

$(VENV)/pyvenv.cfg: $(if $(STALE),stale)
	@test ! -L $(VENV) || { echo \
	  '$(VENV): got a link, whose folder would be emptied; expected none, remove it'; exit 1; }
	@case "$$(pwd -P)" in *[:{}*?[]*) \
	  echo "$$(pwd -P): got a clone with : { } * ? or [ in its path; move it"; exit 1;; \
	  *' '*[\"\$$\`\\]*|*[\"\$$\`\\]*' '*) echo "$$(pwd -P): got a clone with a blank and" \
	  'one of " $$ ` \ in its path; move it'; exit 1;; esac
	@python=$$($(ENVIRONMENT) find '$(PYTHON)') && \
	  $(if $(STALE),echo '$(VENV) is made anew: $(STALE)' &&) \
	  "$$python" -m venv --clear $(VENV)

stale:

# Half made, it has no pip, which is told; make would delete it at an interrupt.
.PRECIOUS: $(VENV)/pyvenv.cfg

# The command of this clone, though the project itself is not installed.
$(BIN)/tierscope: $(READY) $(FOREIGN)
	@printf '%s\n' '#!/bin/sh' \
	  'here=$$(CDPATH= cd "$$(dirname "$$0")/../.." && pwd)' \
	  'exec "$$here/$(BIN)/python" "$$here/workflow/scripts/tierscope_command.py" "$$@"' \
	  > $@
	@chmod +x $@

# Snakemake looks for --profile NAME beside the Snakefile, not in profiles/.
$(PROFILES): %:
	ln -s profiles/$* $*

# Tests that need these packages run where they are or can be had, and else skip.
test-packages: setup
	@dpkg -s $(TEST_PACKAGES) > /dev/null 2>&1 || ! command -v apt-get > /dev/null || \
	  test "$$(id -u)" != 0 || \
	  { timeout 120 apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 600 \
	    apt-get install -qq -y --no-install-recommends $(TEST_PACKAGES); } \
	    > $(VENV)/packages.log 2>&1 < /dev/null || \
	  echo "no $(TEST_PACKAGES), some tests skip: see $(VENV)/packages.log"

# Solve the pins of pyproject.toml anew, one version of each package for all Pythons.
lock: setup
	$(BIN)/uv pip compile --quiet --universal --fork-strategy fewest --generate-hashes \
	  --no-header --no-annotate --group dev pyproject.toml -o requirements.lock
	{ echo uv==$(UV_VERSION); grep -oE '^(packaging|setuptools|wheel)==\S+' requirements.lock; } | \
	  $(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-annotate - \
	  -o requirements-build.lock

# Write the pages that are made from schemas and contracts.
docs: setup
	$(BIN)/python workflow/scripts/write_documents.py

clean:
	find results -mindepth 1 -maxdepth 1 ! -name README.md -exec rm -rf {} +
	rm -rf scratch .snakemake .pytest_cache .ruff_cache
	find workflow -name "*.nb[ci]" -delete
