# Each target sets up its own .venv if it is missing; nothing else needs to be done first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint bench soak clean

demo: $(READY) ## run the built-in campaign and write its report to runs/demo/report/index.html
	@rm -rf runs/demo
	$(BIN)/swerve demo --into runs/demo

# Hundreds of tests start Python, which compiles the package again and again unless it may keep what it compiled.
test: $(READY) ## run the tests, on all cores, a file at a time
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder

lint: $(READY) ## style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: $(READY) ## timings side by side with peers, as ratios
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@missed=0; for file in $$(grep -l __main__ bench/*.py); do echo "== $$file"; $(BIN)/python $$file || missed=1; done; exit $$missed

soak: $(READY) ## the long runs: kills, full counts
	SWERVE_SOAK=1 $(BIN)/python -m pytest tests/quality tests/unit/test_source_*.py

clean: ## remove everything that can be made again
	rm -rf $(VENV) runs build src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV): packages only, a minute or two"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
