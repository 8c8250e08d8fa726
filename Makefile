# make demo              the main use case on a local file
# make test              lint, types, and the fast tests: units, goldens, the store contract on SQLite, a smoke test of each surface
# make test-all          the slow tests too: PostgreSQL, several processes, kill -9, servers, every surface, Node; the fast ones unless they passed already
# make test-frameworks   the adapters of frameworks, those of Strands and CrewAI in an environment without the server; part of test-all
# make lint              format, lint rules, types, layers
# make client            clients/typescript/src/schema.ts: the types of the TypeScript client, from the OpenAPI document of the server
# make bench             docs/figures/bench.md: recalls and writes of Salience and other stores (SIZES, PEERS, WORK), in a separate virtual environment
# make bench-everyday    tables of docs/explanation/tests.md: what comes first on the everyday worlds, beside other stores
# make bench-postgres    docs/figures/postgres.md: capacity and speed of one PostgreSQL server with 250,000 synthetic memories, and a table of capacity; about 20 minutes
# make bench-server      docs/figures/server.md: speed of `salience serve` on loopback
# make relations         src/salience/relations.npz: fit the model of relations; several minutes
# make ablation          docs/figures/ablation.md: what each signal of the default profile is worth on DATA
# make thresholds        docs/figures/thresholds.md: error rate of each threshold, measured on DATA
# make confidence        docs/figures/confidence.md and the tables [confidence] of the profiles: fitted on DATA; about 5 minutes
# make torture           files: kill -9, full disks, many processes, a change of model; every acknowledged write survives
# make torture-postgres  a server: leaks between tenants, kill -9 of PostgreSQL, thousands of tenants
# make torture-server    REST and MCP: no key may read, see or time another tenant's data
# make fuzz              Schemathesis over the OpenAPI document of a server
# make bench-dashboard   time and size of each view of the dashboard with 100,000 memories: prints a table, and fails over 300 KB a page
# make startup           processor time of a start, compared with importing NumPy and SQLAlchemy
# make screenshots      docs/images/ui-*.png: the views of the dashboard on a sample store; needs Chromium
# make docs              site/: the documentation as a site that opens from the disk; broken links and anchors fail
# make docs-release      a version of the site on the branch gh-pages of this clone, to be pushed: VERSION=0.1
# make reference         docs/reference: settings, commands, requests, profiles and Python API, from the code
# make dist              dist/: the wheel and the sdist of the last commit, built twice, compared and checked
# make install-check     the wheel in an empty environment: seconds, megabytes, first recall; dist/*.cdx.json, its SBOM (PYTHONS)
# make lock              deploy/requirements*.txt: the packages of the image and of its build, each by version and hash
# make soak              every verb in random order, compared with a model in plain dictionaries: STEPS on each kind of store
PYTHON ?= python3
VENV   := .venv
BENCH  := .venv-bench
FRAMEWORKS := .venv-frameworks
BIN    := $(VENV)/bin
DATA   ?= $(SALIENCE_TEST_DATA)
STEPS  ?= 10000
PYTHONS ?= 3.11 3.12 3.13 3.14
unexport PYTHONDONTWRITEBYTECODE # tests start hundreds of processes: each would compile what it imports
DEV_EXTRAS := [dev,dist,docs,static,bge,multilingual,eval]
SIZES  ?= 10000,100000
PEERS  ?= all
JOBS   ?= $(shell expr $$(nproc) + 1) # one more than cores: many tests wait for disks and processes

PYTEST := SALIENCE_TEST_DATA="$(DATA)" $(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --ignore tests/integrations

.PHONY: client docs docs-release reference demo test test-all test-slow test-frameworks lint relations bench bench-everyday bench-postgres thresholds ablation confidence torture torture-postgres torture-server fuzz bench-server bench-dashboard startup soak screenshots dist install-check lock clean

demo: $(VENV)/.installed
	$(BIN)/salience demo
	@echo 'In this shell, first: . $(BIN)/activate'

test: lint
	$(PYTEST) -m "not slow"
	touch $(VENV)/.tested

test-all: $(VENV)/.tested $(FRAMEWORKS)/.installed
	$(MAKE) -j 2 test-slow test-frameworks

test-slow: $(VENV)/.dev
	$(PYTEST) -m slow

test-frameworks: $(VENV)/.dev $(FRAMEWORKS)/.installed # by one process, since importing the frameworks takes seconds
	$(BIN)/pytest tests/integrations
	SALIENCE_TEST_COMMAND=$(abspath $(BIN))/salience $(FRAMEWORKS)/bin/pytest tests/integrations/test_strands.py tests/integrations/test_crewai.py
	$(FRAMEWORKS)/bin/pytest tests/integrations/test_pages.py -k "strands or crewai"
	$(FRAMEWORKS)/bin/mypy -p salience.integrations.strands -p salience.integrations.crewai

$(VENV)/.tested: $(wildcard $(shell git ls-files)) # the fast tests passed with these files
	$(MAKE) test

lint: $(VENV)/.dev
	$(BIN)/ruff format --check src tests bench examples tools
	$(BIN)/ruff check src tests bench examples tools
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports --no-logo

client: $(VENV)/.dev
	cd clients/typescript && PATH="$(abspath $(BIN)):$$PATH" npm ci --ignore-scripts --no-audit --no-fund
	PYTHONPATH=tests $(BIN)/python -c "import json, servers; print(json.dumps(servers.document()))" \
		| (cd clients/typescript && PATH="$(abspath $(BIN)):$$PATH" npm run generate -- --output src/schema.ts)
	$(BIN)/python -m tools.typescript > clients/typescript/src/verbs.ts

bench: $(BENCH)/.installed
	$(BENCH)/bin/python -m bench.recall --sizes $(SIZES) --peers $(PEERS) $(if $(WORK),--work $(WORK)) --out docs/figures

bench-everyday: $(BENCH)/.installed
	$(BENCH)/bin/python -m bench.everyday --half report

bench-postgres: $(VENV)/.dev
	$(BIN)/python -m bench.postgres > docs/figures/postgres.md

bench-server: $(VENV)/.dev
	$(BIN)/python -m bench.server > docs/figures/server.md

bench-dashboard: $(VENV)/.dev
	$(BIN)/python -m bench.dashboard

startup: $(VENV)/.dev
	$(BIN)/python -m bench.startup

fuzz: $(VENV)/.dev
	$(BIN)/python -m bench.fuzz --store sqlite
	$(BIN)/python -m bench.fuzz --store postgres

relations: $(BENCH)/.installed
	$(BENCH)/bin/python -m bench.relations fit

thresholds: $(VENV)/.dev
	$(BIN)/python -m bench.thresholds $(DATA) > docs/figures/thresholds.md

ablation: $(VENV)/.dev
	$(BIN)/python -m bench.ablation $(DATA) > docs/figures/ablation.md

confidence: $(VENV)/.dev
	$(BIN)/python -m bench.confidence $(DATA) > docs/figures/confidence.md

torture: $(VENV)/.dev
	$(BIN)/python -m bench.torture crash --runs 200 --seed 1
	$(BIN)/pytest -q tests/store/test_full_disk.py
	$(BIN)/python -m bench.torture crowd --processes 8 --seconds 120 --seed 1
	$(BIN)/python -m bench.torture reembed --memories 5000

torture-postgres: $(VENV)/.dev
	$(BIN)/python -m bench.torture_postgres leaks --tenants 50 --threads 16 --seconds 60
	$(BIN)/python -m bench.torture_postgres kill --rounds 60
	$(BIN)/python -m bench.torture_postgres tenants --count 3000

torture-server: $(VENV)/.dev
	$(BIN)/python -m bench.torture_server leaks --store sqlite --seconds 120
	$(BIN)/python -m bench.torture_server leaks --store postgres --seconds 120
	$(BIN)/python -m bench.torture_server timing --store sqlite
	$(BIN)/python -m bench.torture_server timing --store postgres
	$(BIN)/python -m bench.torture_server silence

screenshots: $(VENV)/.dev
	$(BIN)/python -m bench.screenshots

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-release: docs
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. PATH="$(abspath $(BIN)):$$PATH" $(BIN)/mike deploy --update-aliases $(VERSION) latest
	PYTHONPATH=. PATH="$(abspath $(BIN)):$$PATH" $(BIN)/mike set-default latest

reference: $(VENV)/.dev
	$(BIN)/python -m tools.reference

dist: $(VENV)/.dist
	$(BIN)/python -m bench.dist dist

install-check: dist
	$(BIN)/python -m bench.install dist/*.whl --pythons $(PYTHONS) --sbom "$$(echo dist/*.tar.gz | sed 's/\.tar\.gz$$/.cdx.json/')"
	$(BIN)/python -m bench.install dist/*.whl --lowest

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.13 --generate-hashes --no-header --no-annotate
lock: $(VENV)/.dist
	$(LOCK) pyproject.toml --extra server --extra postgres --output-file deploy/requirements.txt
	echo hatchling | $(LOCK) - --output-file deploy/requirements-build.txt

soak: $(VENV)/.dev
	SALIENCE_TEST_STEPS=$(STEPS) $(BIN)/pytest tests/nothing_is_lost

# $(call install,ENVIRONMENT,EXTRAS): by uv, which takes a fifth of the time; by pip where uv reaches no index
define install
test -x $(1)/bin/python || $(PYTHON) -m venv $(1) || { echo "Python's venv module is missing: apt-get install python3-venv" >&2; exit 1; }
$(1)/bin/python -m pip install --quiet --disable-pip-version-check uv
VIRTUAL_ENV=$(abspath $(1)) $(1)/bin/uv pip install --quiet --compile-bytecode --editable '.$(2)' \
	|| $(1)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.$(2)'
touch $(1)/.installed
endef

$(BENCH)/.installed: pyproject.toml
	$(call install,$(BENCH),[bench])

$(FRAMEWORKS)/.installed: pyproject.toml
	$(call install,$(FRAMEWORKS),[frameworks])

$(VENV)/.installed: pyproject.toml
	$(call install,$(VENV))

$(VENV)/.dist: pyproject.toml
	$(call install,$(VENV),[dist])
	touch $@

$(VENV)/.dev: pyproject.toml
	$(call install,$(VENV),$(DEV_EXTRAS))
	touch $@ $(VENV)/.dist

clean:
	rm -rf $(VENV) $(BENCH) $(FRAMEWORKS) dist build site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
