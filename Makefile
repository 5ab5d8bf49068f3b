PYTHON ?= python3
BIN := .venv/bin
RUN ?= runs/tictactoe.toml
CORE_BUILD := core/build/asan
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/zerofleet/__init__.py)
IMAGES ?= selfplay inference trainer evaluator autoscaler dashboard tools
# The trainer for GPUs is the same target with another torch, and so has a tag of its own.
TAG ?= $(VERSION)

# Tests compute more than they wait: more at a time than there are cores only fills the gaps, and
# each of these processes costs 15 CPU-seconds before its first test.
WORKERS ?= 3
TEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
# Tests of the page import playwright, which only test-browser installs.
WITHOUT_BROWSER = --ignore=tests/browser

# Of test-chaos.
ROUNDS ?= 100
SEED ?= 1
FLEETS ?= 1

# Of screenshots.
MINUTES ?= 10

# What is compiled once is not compiled again by each process that a test starts.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup setup-run setup-test setup-check setup-browser setup-docs run up test test-loaded test-fleet test-core test-chaos test-browser check check-deploy docs docs-serve screenshots reference fmt proto bench clean images wheels sbom compose-test cluster-test

help: ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv and install everything, once
	@$(PYTHON) scripts/setup.py

# Each installs its own packages when a target first needs them; all but docs need those of a run.
setup-run setup-test setup-check setup-browser setup-docs:
	@$(PYTHON) scripts/setup.py $(@:setup-%=%)

run: setup-run ## train tic-tac-toe until the player never loses
	@$(BIN)/zerofleet up runs/tictactoe.toml --until goal

up: setup-run ## train RUN=runs/connect_four.toml until Ctrl-C
	@$(BIN)/zerofleet up $(RUN)

test: setup-test ## the tests; installs what they need first
	$(TEST) $(WITHOUT_BROWSER) -m "not fleet and not docker and not cluster and not gpu"

test-loaded: setup-test ## the tests three times in a row, next to eight busy loops
	for i in 1 2 3; do $(BIN)/python scripts/under_load.py 8 $(MAKE) --no-print-directory test || exit 1; done

test-fleet: setup-test ## tests of whole fleets, benchmarks and a few slow tests
	$(TEST) $(WITHOUT_BROWSER) -m "fleet and not docker and not cluster and not gpu"

test-browser: setup-test setup-browser setup-docs ## tests of the pages in Chromium (Debian's package)
	$(TEST) -m browser tests/browser

test-core: setup-run ## the C++ tests, under ASan and UBSan
	cd core && ../$(BIN)/cmake --preset asan && ../$(BIN)/cmake --build --preset asan && \
	  ../$(BIN)/ctest --preset asan

test-chaos: setup-test ## ROUNDS of faults of every kind, by SEED; resumes after an interruption
	$(BIN)/python -m bench.chaos --rounds $(ROUNDS) --seed $(SEED) --fleets $(FLEETS)

images: ## build the container images for CPUs; IMAGES=inference-gpu for one alone
	@for name in $(IMAGES); do echo "==> zerofleet-$$name:$(TAG)" && \
	  docker build -q --target $$name -t zerofleet-$$name:$(TAG) \
	    --label org.opencontainers.image.revision=$$(git rev-parse HEAD) \
	    $(IMAGE_OPTIONS) . || exit 1; done

RELEASE := .venv-release
$(RELEASE): deploy/release-requirements.txt
	$(PYTHON) -m venv --clear $@
	$@/bin/pip install -q --disable-pip-version-check --no-deps -r $<
	touch $@

wheels: $(RELEASE) ## wheels of this version in dist/: the core's for each CPython, in Docker, and zerofleet's
	cd core && ../$(RELEASE)/bin/cibuildwheel --output-dir ../dist
	$(RELEASE)/bin/python -m build --wheel --outdir dist .

sbom: $(RELEASE) ## what is in each image and under which licence, in dist/sbom; after make images
	$(RELEASE)/bin/python scripts/sbom.py $(IMAGES:%=zerofleet-%:$(TAG))

compose-test: setup-test ## build the images; start, query, scale and kill a fleet with Compose
	NEEDS_DOCKER=1 $(BIN)/python -m pytest -m docker -s tests/docker

cluster-test: setup-test ## test a fleet on the cluster that kubectl names (CLUSTER_LOAD="kind load docker-image")
	NEEDS_CLUSTER=1 $(BIN)/python -m pytest -m cluster -s tests/cluster

check: setup-check ## formatting, lint, prose, spelling, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python scripts/prose.py
	$(BIN)/codespell $$(git ls-files)
	$(BIN)/python proto/generate.py --check
	$(BIN)/python proto/generate.py --types
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $$(git ls-files 'core/*.h' 'core/*.cpp')
	$(BIN)/bandit -q -c pyproject.toml -r src services scripts

check-deploy: setup-test ## render, validate and scan the manifests; needs no cluster
	NEEDS_KUBECTL=1 $(BIN)/python -m pytest -q tests/repo -k k8s
	$(BIN)/python scripts/deploy_check.py

docs: setup-docs ## build the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

docs-serve: setup-docs ## show the documentation, and build it again when a page changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

screenshots: setup-test setup-browser ## photograph the dashboard for the docs: MINUTES=10 of training, or DATA=FOLDER
	$(BIN)/python scripts/screenshots.py $(if $(DATA),--data $(DATA),--minutes $(MINUTES))

reference: setup-test ## write the generated pages of docs/reference
	$(BIN)/python scripts/reference

fmt: setup-check ## format the sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i $$(git ls-files 'core/*.h' 'core/*.cpp')

proto: setup-check ## regenerate what is generated from proto/
	$(BIN)/python proto/generate.py

bench: setup-test ## benchmarks of speed, about six minutes; to run one: python -m bench.tree go9
	@$(BIN)/python -m bench

clean: ## remove the environment and everything built
	rm -rf .venv core/build build *.egg-info src/*.egg-info
