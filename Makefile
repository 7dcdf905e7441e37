# Each target sets up what it needs; `make test` works on a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SUPPLY := $(VENV)/.supply

.PHONY: help test check lint types imports format coverage torture benchmarks soak results demo docs dist \
	pins audit sbom clean

help:
	@echo "make test        run the tests"
	@echo "make check       lint, formatting, types, import layers, tests"
	@echo "make coverage    run the tests, and say which lines and branches none of them reached"
	@echo "make torture     kill, starve and mislead oddone thousands of times (hours); writes results/"
	@echo "make demo        learn eight garments, then notice two others and digits; five minutes"
	@echo "make benchmarks  measure speed and memory against the peers; writes results/"
	@echo "make soak        train, fit, score and serve for an hour, and look for leaks; writes results/"
	@echo "make results     write docs/results.md from the records of oddone bench in results/"
	@echo "make docs        build the documents and the API reference; writes build/docs/"
	@echo "make format      let ruff rewrite the code"
	@echo "make dist        build the sdist, and from it the wheel, twice, and compare; writes dist/"
	@echo "make pins        write constraints.txt and requirements.hashed.txt; UPGRADE=1 for new versions"
	@echo "make audit       look for known vulnerabilities in what requirements.hashed.txt pins"
	@echo "make sbom        list what is needed at run time, with licences; writes build/"
	@echo "make clean       remove the environment and caches"

$(READY): pyproject.toml constraints.txt src/oddone/__init__.py # the last holds the version
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto  # a worker for each core, a thread for each worker

coverage: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --cov

torture: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/torture.py

check: lint types imports test

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmarks: $(READY)
	$(BIN)/python benchmarks/loss.py
	$(BIN)/python benchmarks/density.py
	$(BIN)/python benchmarks/augmentation.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/scoring.py
	$(BIN)/python benchmarks/decoding.py
	$(BIN)/python benchmarks/processes.py
	$(BIN)/python benchmarks/chunks.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/engines.py
	$(BIN)/python benchmarks/first_verdict.py
	$(BIN)/python benchmarks/table.py

soak: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/soak.py

results: $(READY)
	$(BIN)/python benchmarks/results_page.py

demo: $(READY)
	$(BIN)/oddone demo

docs: $(READY)
	$(BIN)/python scripts/build_docs.py

dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python scripts/rebuild.py

$(SUPPLY): $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[supply]'
	touch $@

# Pins that still fit stay as they are, unless UPGRADE=1.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-annotate --fork-strategy fewest \
	--custom-compile-command 'make pins' $(if $(UPGRADE),--upgrade) pyproject.toml

# Without ray, tensorboard and transformers, which few need and which bring dozens of packages.
HASHED_EXTRAS = heif onnx parquet pretrained remote report service

pins: $(SUPPLY)
	$(COMPILE) --extra dev --extra supply -o constraints.txt
	$(COMPILE) $(addprefix --extra ,$(HASHED_EXTRAS)) -c constraints.txt --generate-hashes \
		-o requirements.hashed.txt

# --strict: without it, pip-audit finds nothing wrong with packages that it finds no data on.
audit: $(SUPPLY)
	$(BIN)/pip-audit --strict --disable-pip --require-hashes -r requirements.hashed.txt || \
		{ echo "make audit: listed above is what is vulnerable, or what PyPI gave no data on"; exit 1; }

sbom: $(SUPPLY)
	$(BIN)/python scripts/sbom.py

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage
