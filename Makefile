# What people and CI call. Everything is installed into .venv (the tool) and .venv-sglang (the
# real server of the examples and tests); `make clean` removes both.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup server-setup check test soak bench demo demo-check clean

setup: .venv/.ready
.venv/.ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable . --group dev
	touch $@

server-setup: setup
	$(BIN)/python examples/sglang_cpu/install.py
	.venv-sglang/bin/python examples/sglang_cpu/make_models.py

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: check server-setup
	$(BIN)/pytest

soak: server-setup
	$(BIN)/pytest tests/soak

bench: server-setup
	for script in tests/benchmarks/*.py; do $(BIN)/python $$script --json || exit 1; done

demo: server-setup
	$(BIN)/python examples/sglang_cpu/demo.py

demo-check: server-setup
	$(BIN)/python examples/sglang_cpu/demo.py --check

clean:
	rm -rf .venv .venv-sglang examples/sglang_cpu/.models .mypy_cache .ruff_cache .pytest_cache
