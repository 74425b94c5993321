# Every target builds what it needs: Python >= 3.11 and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SAELENS := $(VENV)/saelens
OUT ?= out

# Numba and BLAS each start a thread a core; two of them at once on one core only get in each other's way.
export OMP_NUM_THREADS ?= $(shell $(PYTHON) -c "import os; print(os.cpu_count() or 1)")

# Modules are compiled once, not by each of the processes that a report or the tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: report test test-shard test-all test-saelens reproduce verdicts pages notebooks lint wheel bench docs clean

report: $(STAMP)
	$(BIN)/superposition report --out $(OUT)/report

# Two workers with a thread each: threads that wait for each other on busy cores take several times as long.
# tests/conftest.py says which tests share a worker. Verdicts have a target of their own.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --no-loadscope-reorder --strict-skips --ignore tests/validate/test_verdicts.py tests

# Each notebook in a fresh kernel, from top to bottom; nothing is written.
notebooks: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --nbmake notebooks

# Slow tests, and property tests at random, in twelve shards of two processes. The day chooses the shard of `test-shard`
# and its seed, `make test-shard DAY=739947` repeats it; what SHARD_SECONDS leave no time for is counted as skipped. Verdicts
# have a target of their own, and so have the tests against SAELens, which the day of the first shard runs as well. Processors
# round sums in their own ways: stored numbers are compared once more with the kernels that OpenBLAS has for another one.
DAY ?= $(shell $(PYTHON) -c "import datetime; print(datetime.date.today().toordinal())")
SHARD_SECONDS ?= 480
SHARDS ?= 1 2 3 4 5 6 7 8 9 10 11 12
IN_SHARDS = OMP_NUM_THREADS=1 HYPOTHESIS_PROFILE=random $(BIN)/python -m pytest -n 2 --no-loadscope-reorder --strict-skips -rs \
	--hypothesis-seed=$(DAY) -m "(slow or hypothesis) and not reproduce" --ignore tests/validate/test_verdicts.py

test-shard: $(STAMP)
	$(IN_SHARDS) --shard $$(($(DAY) % 12 + 1))/12 --seconds $(SHARD_SECONDS) tests
	OPENBLAS_CORETYPE=Haswell OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -k "those_stored or all_of_its" tests
	@[ $$(($(DAY) % 12)) -ne 0 ] || $(MAKE) test-saelens

# Hours; `make test-all SHARDS="3 7"` runs some, with AGAIN=--again what failed in them. What became of each stands in
# tests/slow_suite.json, which is committed.
test-all: $(STAMP)
	failed=0; for shard in $(SHARDS); do \
	  $(IN_SHARDS) --shard $$shard/12 --record tests/slow_suite.json $(AGAIN) tests || failed=1; \
	done; exit $$failed

# Autoencoders and synthetic data against SAELens itself (minutes), recorded as shards are.
test-saelens: $(SAELENS)/.installed
	OMP_NUM_THREADS=1 $(SAELENS)/bin/python -m pytest --strict-skips -m "" --record tests/slow_suite.json tests/validate/test_saelens.py

# A part of each stored run, made anew and compared: half an hour; with -m "reproduce and not slow" some minutes.
reproduce: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m reproduce tests/reference

# Every row of the ledger is judged anew and compared with what is stored of it.
verdicts: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --no-loadscope-reorder -m "slow or not slow" tests/validate/test_verdicts.py

# What commands write of the documentation: errata, tables, pictures (minutes). tests/test_pages.py compares the texts.
pages: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python docs/pages.py --pictures

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	mkdir -p $(VENV)/link && ln -sfn ../.. $(VENV)/link/superposition
	MYPYPATH=$(VENV)/link $(BIN)/mypy -p superposition.theory -p superposition.solvers -p superposition.validate

# Into dist/, and tried in an environment of its own that has no torch.
wheel:
	PYTHON=$(PYTHON) .ci/wheel

# The extra holds rivals that only benchmarks need. The table of the documentation is made from what is measured.
bench: $(STAMP)
	mkdir -p $(OUT)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[bench]'
	@# solve_nivp brings its tests as a package `tests`, which would hide ours from processes that `make test` starts.
	$(BIN)/python -c "import shutil, sysconfig; shutil.rmtree(sysconfig.get_path('purelib') + '/tests', ignore_errors=True)"
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 \
	$(BIN)/python -m pytest tests/benchmarks -o python_files='bench_*.py' --benchmark-enable --benchmark-quiet --benchmark-json=$(OUT)/benchmarks.json -q
	$(BIN)/python tests/benchmarks/table.py docs/benchmarks.md $(OUT)/benchmarks.json

# The code that README and pages print runs, then the pages are built. They load nothing from
# elsewhere. What Sphinx makes of the docstrings on its way lies in docs/api; old pages there would count as strays.
docs: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --no-loadscope-reorder --strict-skips -m "printed and not slow" \
	  tests/test_docs.py tests/test_printed.py tests/test_start.py
	rm -rf docs/api docs/made
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -q -W --keep-going -j auto -b html docs $(OUT)/docs
	@! grep -rlE --include='*.html' "<(script|img|iframe|source|link)[^>]*\s(src|href)=[\"']?(https?:)?//" $(OUT)/docs \
	  || { echo "these pages load files of other hosts"; exit 1; }
	@! grep -rlF --include='*.html' "$(CURDIR)" $(OUT)/docs || { echo "these pages name a folder of this machine"; exit 1; }
	@echo "$(OUT)/docs/index.html"

clean:
	rm -rf $(VENV) $(OUT) docs/api docs/made build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'superposition needs Python 3.11 or newer; got ' + sys.version)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[torch,dev]'
	touch $(STAMP)

# Apart from the other: SAELens brings many packages that nothing else here needs.
$(SAELENS)/.installed: pyproject.toml constraints.txt
	test -x $(SAELENS)/bin/python || $(PYTHON) -m venv $(SAELENS)
	@$(SAELENS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[saelens]' \
	  || { echo "tests/validate/test_saelens.py was not run: SAELens could not be installed" >&2; exit 1; }
	touch $@
