# Every target sets up what it needs. `make run` and `make test` are the two that matter.
.DEFAULT_GOAL := help
.PHONY: help setup run stop test lint types docs bench lock clean

help:  ## show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:
	@sh infra/setup.sh

run: setup  ## start the local cloud, deploy, ingest the sample logs or LOGS="path/*.gz", show the result
	@.venv/bin/logflume run $(LOGS)

stop: setup  ## end the local cloud; no process stays behind
	@.venv/bin/logflume local down

test: lint types  ## everything: lint, types, unit, integration, infra, e2e
	@.venv/bin/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder tests

lint: setup
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .

types: setup
	@.venv/bin/mypy

docs: setup  ## write docs/sources.md anew, from the code's definitions and docs/examples
	@.venv/bin/python -m infra.cli.reference

bench: setup  ## run every benchmark, or ONLY="resume cost", and write bench/report/REPORT.md (under 30 minutes)
	@.venv/bin/python -m bench.report $(if $(ONLY),--only $(ONLY))

lock: setup  ## compile the requirements anew, within what the .in files allow
	@cd infra && for name in requirements local/runtime-requirements local/localstack-requirements; do \
		../.venv/bin/uv pip compile --quiet --upgrade --python-version 3.13 --generate-hashes --no-header \
			$$([ $$name = local/runtime-requirements ] && echo -c requirements.txt) -o $$name.txt $$name.in || exit; done
	@cd layers/dependencies && ../../.venv/bin/uv pip compile --quiet --upgrade --python-version 3.13 --generate-hashes \
		--no-header --python-platform aarch64-manylinux2014 -c ../../infra/requirements.txt -o requirements.txt requirements.in

clean: stop  ## remove everything that was installed or built here
	rm -rf .logflume .venv cdk.out infra/node_modules
