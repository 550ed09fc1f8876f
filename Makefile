# Every target installs what it needs, from Python 3.11+ and make alone, and is quick when nothing has changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo test explore lint ontologies bench bench-kernel docs lock clean kills faults simulate mutants w3c simulate-can package hostile overlay-kills
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

setup: $(READY)  ## make .venv with motet in it

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Motet needs Python 3.11 or newer; run: make PYTHON=python3.11 $(MAKECMDGOALS)")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked requirements into $(VENV) (PySpark is large: a minute or two the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@echo "compiling the kernels once (about half a minute)"
	@$(BIN)/python -c 'from motet.engine.runtime.warm_up import warm_up; warm_up()'
	@touch $@

demo: $(READY)  ## run the building demo on Spark
	@$(BIN)/motet demo

lint: $(READY)  ## ruff and mypy --strict
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

test: lint  ## lint, then all tests, with the same random examples every time
	@PYTHONHASHSEED=0 $(BIN)/pytest -n auto --dist loadfile

explore: $(READY)  ## the property tests with new random examples, more of them
	@MOTET_EXPLORE=1 MOTET_TEXTS=2000 MOTET_TREES=2000 MOTET_MUTATIONS=3000 MOTET_QUERIES=5000 $(BIN)/pytest -n auto --dist loadfile -m hypothesis

kills: $(READY)  ## the SIGKILL test of the lake, with 2 000 kills and a new seed
	@MOTET_KILLS=2000 MOTET_KILLS_SEED=$$($(PYTHON) -c 'import random; print(random.randrange(2**32))') $(BIN)/pytest tests/lake/test_kills.py

faults: $(READY)  ## kill the Spark pipeline, its executors and its checkpoint; the notification table must stay correct
	@$(BIN)/python -m tests.faults.run

hostile: $(READY)  ## hostile frames and handshakes against the nodes of the overlay: none may crash or leak
	@$(BIN)/python -m tests.overlay.net.hostile

overlay-kills: $(READY)  ## kill processes of a local overlay of eight; lookups must go on
	@MOTET_OVERLAY_KILLS=20 $(BIN)/pytest -s tests/overlay/net/test_local_network.py tests/overlay/net/test_scenario_processes.py

SEEDS ?= 1-3000

simulate: $(READY)  ## run thousands of seeds of the overlay simulator; SEEDS=42 repeats one
	@nice $(BIN)/motet simulate --seeds $(SEEDS) --jobs 2

simulate-can: $(READY)  ## the same for the CAN
	@nice $(BIN)/motet simulate --seeds $(SEEDS) --protocol can --jobs 2

mutants: $(READY)  ## seed mistakes into the engine, one at a time: each must be caught
	@$(BIN)/python -m tests.mutants.run

w3c: $(READY)  ## the W3C suites of SPARQL 1.0 and 1.1; MOTET_W3C is their directory or .tar.gz, ARGS more options
	@$(BIN)/python -m tests.w3c.run $(ARGS)

ontologies: $(READY)  ## download published ontologies (needs npm) and compare the class codes with the reasoner
	@mkdir -p .cache/ontologies
	@$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --dest .cache/ontologies brickschema==0.8.0
	@cd .cache/ontologies && npm pack --silent @zazuko/rdf-vocabularies@2023.1.19
	@$(BIN)/pytest tests/ontology/test_published.py

bench: $(READY)  ## every benchmark, each prints a ratio
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

bench-kernel: $(READY)  ## the benchmarks of matching, detection and publishing that have a goal; takes minutes
	@$(BIN)/python benchmarks/match.py
	@$(BIN)/python benchmarks/detect.py --rounds 3
	@$(BIN)/python benchmarks/sharing.py --events 100000 --rounds 5
	@$(BIN)/python benchmarks/memory.py
	@$(BIN)/python benchmarks/end_to_end.py
	@mkdir -p build/bench && $(BIN)/python benchmarks/latency.py --events 1000 --directory build/bench

package: $(READY)  ## build the wheel and run the README's programs in an empty environment, without and with Spark
	@$(BIN)/python -m tests.package

docs: $(READY)  ## HTML documentation in build/docs
	@$(BIN)/python docs/tour.py
	@$(BIN)/sphinx-build --quiet --fail-on-warning docs build/docs
	@echo "open build/docs/index.html"

lock: $(READY)  ## compile requirements.txt from pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --upgrade \
	    --no-header --no-emit-index-url --output-file requirements.txt pyproject.toml

clean:  ## remove everything that can be rebuilt
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis motet-demo
