# Everything that this project does has a target here. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
# Spark binds to this address when it runs on one machine; a host name that does not resolve is then no trouble.
export SPARK_LOCAL_IP ?= 127.0.0.1
PIPELINE := scripts/pipelines.sh && PYTHONPATH=build/pipelines/pyspark python -m eval.pipelines

.PHONY: help setup demo test test-native test-python nightly tenth chaos soak screenshots lint format lab lab-spark bench
.PHONY: bench-native bench-rdma bench-recovery bench-durability bench-modes bench-nexmark bench-kafka
.PHONY: scale bench-latency bench-overload bench-backlog bench-history eval eval-cluster model wheels archive lock clean pipeline-append pipeline-merge pipeline-kafka docs

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## create the environment in .venv: system packages, Python packages, pyslash itself
	@scripts/setup.sh

demo: setup ## the same PySpark job on plain Spark and on pyslash, over a year of flights, then over 120 (5 minutes)
	@pyslash demo

pipeline-append: setup ## a real pipeline, live: JSON from Kafka, windows, appended to a Delta table (a minute)
	@$(PIPELINE) append $(ARGS)

pipeline-merge: setup ## the same with open windows, by MERGE into a Delta table
	@$(PIPELINE) merge $(ARGS)

pipeline-kafka: setup ## the same with open windows, into another topic
	@$(PIPELINE) kafka $(ARGS)

test: setup ## native tests under sanitizers, a tenth of pytest's that the commit draws, and what was not covered; WHOLE=1 for all
	@WHOLE=$(WHOLE) scripts/test.sh

test-native: setup ## the native tests alone, under ASan/UBSan and TSan
	@scripts/test_native.sh

test-python: setup ## pytest alone; ARGS="tests/plan -k window" narrows it
	@pytest $(ARGS)

nightly: setup ## all of `make test`, and what is too long for it, in some ten hours: chaos, a soak, an hour of fuzzing; PART="streams fuzz"
	@scripts/nightly.sh $(PART)

tenth: setup ## a tenth of the tests that `make nightly` adds and a hundredth of its random streams, drawn by SEED (a number)
	@scripts/class_archive.sh
	@pytest -m nightly --tenth $(or $(SEED),0) --ignore=tests/pipelines -n $$(nproc) --dist loadfile
	@seed=$$(($(or $(SEED),0) % 100)); \
	PYSLASH_STREAMS=$$((seed * 20)):$$((seed * 20 + 20)) pytest tests/streaming/streams/test_random_streams.py; \
	PYSLASH_STREAMS_OF_OTHERS=$$((seed * 13)):$$((seed * 13 + 13)) scripts/test_pipelines.sh -k test_streams

chaos: setup ## a fault at every point of an epoch of every operator, by SLICE (0 to 6; `all`: every fault at each), then 20,000 schedules of the model
	@scripts/class_archive.sh
	@PYSLASH_CHAOS=$(or $(SLICE),0) pytest -m chaos tests/faults -n $$(($$(nproc) + 2)) $(ARGS) # half of what a struck application does is to wait
	@$(if $(ARGS),,PYSLASH_SCHEDULES=20000 pytest tests/model)

soak: setup ## a stream whose processes are killed at random; MINUTES=10, ARGS="--seed 1"
	@python -m tests.faults.soak --minutes $(or $(MINUTES),10) $(ARGS)

screenshots: setup ## the pictures of docs/ui.md, taken by the test that looks at the Spark UI's tab
	@scripts/watch_tools.sh
	@PYSLASH_SCREENSHOTS=docs/ui pytest tests/watch

lint: setup ## ruff, mypy --strict, clang-format, hadolint, bash -n
	@scripts/lint.sh

format: setup ## rewrite the sources as `make lint` wants them
	@scripts/lint.sh --fix

lab: setup ## the RDMA tests in two QEMU hosts with Soft-RoCE; COMMAND="..." runs something else there
	@scripts/rxe_lab/lab run --hosts 2 -- bash -c '$(or $(COMMAND),pytest -m rdma $(or $(ARGS),tests/rdma tests/inspect/doctor))'

lab-spark: setup ## Spark over RDMA: a cluster over 4 QEMU hosts (N=2 for two), each of which READs all others (10 minutes)
	@python -m tests.cluster.over_rdma prepare build/lab-spark $(or $(N),4)
	@scripts/rxe_lab/lab run --hosts $(or $(N),4) --memory 3072 --seconds 7200 --results build/lab-spark/results -- \
	  python -m tests.cluster.over_rdma run build/lab-spark

bench: setup ## a quick comparison with plain Spark: the headline, in micro-batches of 250,000 rows (10 minutes)
	@python -m eval suite windows --rows 2000000 --engines slash,spark-rocksdb $(ARGS)

bench-native: setup ## cycles a record of each native kernel, on one core
	@scripts/bench_native.sh $(ARGS)

bench-rdma: setup ## our RDMA transport and perftest, on this machine's device or in a lab host
	@if compgen -G '/sys/class/infiniband/*' >/dev/null; then python -m eval.rdma $(ARGS); \
	else scripts/rxe_lab/lab run -- python -m eval.rdma $(ARGS); fi

bench-recovery: setup ## seconds from a killed executor or driver to the next result, with 1 M groups of state
	@python -m eval.recovery $(ARGS)

bench-modes: setup ## update mode, complete mode and deduplication beside Spark's stores (15 minutes)
	@python -m eval suite modes deduplication $(ARGS)

bench-nexmark: setup ## NEXMark's queries beside Spark's RocksDB and Flink, in micro-batches of both sizes (4 hours)
	@python -m eval suite nexmark nexmark-large $(ARGS)

bench-kafka: setup ## JSON from a Kafka topic into windows, beside Spark with RocksDB (10 minutes); ARGS="ysb --rows 4000000"
	@scripts/pipelines.sh
	@PYTHONPATH=build/pipelines/pyspark python -m eval.kafka $(ARGS)

bench-latency: setup ## from a message's creation to its row in another topic, at 5,000 a second (7 minutes)
	@scripts/pipelines.sh
	@PYTHONPATH=build/pipelines/pyspark python -m eval.pipelines.latency $(ARGS)

bench-overload: setup ## a burst, and a backlog of 50 M JSON messages from a Kafka topic (20 minutes); ARGS="--rows 4000000"
	@scripts/pipelines.sh
	@PYTHONPATH=build/pipelines/pyspark python -m eval.pipelines.overload $(ARGS)

bench-backlog: setup ## how old answers are behind a backlog, in order and fresh first; what a sample saves (20 minutes)
	@scripts/pipelines.sh
	@PYTHONPATH=build/pipelines/pyspark python -m eval.pipelines.fresh $(ARGS)
	@PYTHONPATH=build/pipelines/pyspark python -m eval.pipelines.shed $(ARGS)

bench-history: setup ## a backfill beside Spark's batch, SQL over live state, and what a running query feels (20 minutes)
	@python -m eval history $(ARGS)

bench-durability: setup ## the throughput that a checkpoint costs (20 M rows)
	@python -m eval.durability $(ARGS)

eval: setup ## pyslash beside Spark's stores, Flink, DuckDB, Polars, steady streams first: what starts within 36 minutes
	@mkdir -p build/eval
	@scripts/bench_native.sh --benchmark_out=build/eval/kernels.json --benchmark_out_format=json || \
	  echo 'eval: the native benchmarks did not run, so there are no cycles a record' >&2
	@python -m eval suite all --minutes 36 --kernels build/eval/kernels.json --report build/eval/report.html $(ARGS)

eval-cluster: setup ## weak and strong scaling over the hosts of a file (docs/cluster-eval.md): HOSTS=FILE
	@python -m eval cluster --hosts $(HOSTS) $(ARGS)

model: setup ## throughput and latency on 1 to 1,024 nodes, on paper (docs/scaling.md)
	@python -m eval model $(ARGS)

scale: setup ## what an epoch costs as executors are added, on this machine: a merge, whole queries (docs/scaling.md); N="2 16"
	@python -m eval scale $(if $(N),--executors $(N)) --out build/scale.json
	@python -m eval scale-queries $(if $(N),--executors $(N)) --out build/scale-queries.json $(ARGS)

docs: setup ## build the docs site into build/site, without a warning, and check its links
	@scripts/docs.sh

wheels: setup ## manylinux wheels into dist/, for CPython 3.11 and for 3.12 and later; ARGS=cp311 for one
	@scripts/wheels.sh $(ARGS)

lock: setup ## the versions and hashes of requirements/ from pyproject.toml; PYSLASH_UPGRADE=1 for the newest versions
	@scripts/lock.sh

archive: setup ## an environment with pyslash as an archive, dist/pyslash-env.tar.gz, for YARN
	@scripts/archive.sh

clean: ## remove everything that was built, .venv included
	rm -rf $(VENV) build dist spark-warehouse artifacts .pytest_cache .mypy_cache .ruff_cache .hypothesis
