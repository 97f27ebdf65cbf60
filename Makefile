# One machine with git, make and Python 3.11 or newer is enough. ARGS go to the program behind the target.
BIN := .venv/bin
# Compiled modules are kept, or every process of every test would compile Prefect again.
unexport PYTHONDONTWRITEBYTECODE
# The theme announces its successor at each build.
export NO_MKDOCS_2_WARNING := 1

.PHONY: help setup up demo check test tour pictures bench soak lint docs image clients release
.DEFAULT_GOAL := help

help: ## what there is
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

setup: .venv/.complete ## virtual environment from uv.lock; afterwards .venv/bin/retrieval is there
	@:

.venv/.complete: pyproject.toml uv.lock local/setup.sh local/uv.txt
	@sh local/setup.sh
	@touch $@

up: setup ## start everything in the foreground; Ctrl-C stops it
	@$(BIN)/retrieval up $(ARGS)

demo: setup ## start a fresh instance, ingest a small corpus, search it, stop
	@$(BIN)/retrieval demo $(ARGS)

check: setup ## the fast check of daily work, within 120 s: format, rules, types, imports, tests of what changed against main
	@.ci/check

test: setup ## all tests but those marked slow; ARGS="-m slow" runs those
	$(BIN)/python -m pytest -m "not slow" -n auto --maxprocesses 4 --dist loadscope --no-loadscope-reorder $(ARGS)

bench: setup ## the benchmarks; ARGS names one
	$(BIN)/python -m bench $(ARGS)

soak: setup ## faults without end: ARGS="--minutes 60 --seed 7"; about every role, the database, the network, the disk
	$(BIN)/python -m tests.faults $(ARGS)

# The longest first.
LINTS := lint-types docs lint-format lint-rules lint-imports lint-dependencies
.PHONY: $(LINTS)

lint: setup ## format, rules, types, import contracts, declared dependencies, the site of the docs; two at once
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target $(LINTS)

lint-types:
	$(BIN)/mypy

lint-format:
	$(BIN)/ruff format --check .

lint-rules:
	$(BIN)/ruff check .

lint-imports:
	$(BIN)/lint-imports

lint-dependencies:
	$(BIN)/deptry .

image: ## container images by buildah, as root on Debian, and the demo in them; needs buildah and debootstrap
	@deploy/image.sh

release: setup ## wheels, chart, images and checksums of this version in dist/; IMAGES=no leaves the images out
	@deploy/release.sh

clients: setup ## the Python client and the TypeScript types, from the API's description; needs npm
	$(BIN)/python clients/python/generate.py
	$(BIN)/python -c "import json; from api.app import ROUTE_HANDLERS; from api.openapi import describe_handlers; \
	print(json.dumps(describe_handlers(ROUTE_HANDLERS), default=str))" >.openapi.json
	clients/typescript/generate.sh .openapi.json .npm
	@rm .openapi.json

tour: setup ## the admin app's tasks in a browser: writes the table of docs/admin-app.md
	TOUR_WRITE=1 $(BIN)/python -m pytest -n0 -q tests/e2e/browser/test_tour.py

pictures: setup ## a picture of each page of the admin app, at twice its size, with the demo's content; needs Chromium
	$(BIN)/python docs/generators/app_pictures.py

docs: setup ## the documentation as a site in site/; ARGS=serve shows it while you edit
	$(BIN)/mkdocs $(or $(ARGS),build --strict)
