#!/usr/bin/env bash
# Every test that this machine can run, and at the end, loudly, what it could not.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
started=$SECONDS
trap 'trap - INT TERM; kill 0' INT TERM # what runs in the background would not hear of an interrupt

class_archive() {
  [ build/tests.jsa -nt .venv/.dependencies ] || python -m tests.support.class_archive build/tests.jsa >build/tests.jsa.log 2>&1
}
class_archive &
scripts/test_native.sh
status=0
wait $! || printf 'test: no class archive, so the JVMs start slowly: see build/tests.jsa.log\n' >&2
rm -f build/pytest.xml build/rdma/pytest.xml build/iceberg.xml build/pipelines.xml
scripts/watch_tools.sh || printf 'test: so not everything that users see is looked at\n' >&2
mapfile -t rdma < <(grep -rl --include='test_*.py' 'mark\.rdma' tests)
rdma() {
  if compgen -G '/sys/class/infiniband/*' >/dev/null; then
    printf '\n== pytest, RDMA tests on this machine'\''s device\n'
    pytest -m rdma "${rdma[@]}" --junitxml=build/rdma/pytest.xml
  else
    printf '\n== pytest, RDMA tests in two QEMU hosts with Soft-RoCE\n'
    # An emulated host would take half a minute to import hypothesis, which these files do not use.
    # 125: no lab to be had here. That is told below, and is no failure of ours.
    scripts/rxe_lab/lab run --hosts 2 --seconds 1800 --results build/rdma -- pytest -m rdma "${rdma[@]}" \
      --junitxml=/lab/pytest.xml -p no:cacheprovider -p no:hypothesispytest || [ $? = 125 ]
  fi
}
# Beside all that follows, which makes way: an emulated host has one core, and is slow enough with all of it.
rdma >build/rdma.log 2>&1 &
lab=$!
# Who talks to a broker waits most of the time.
scripts/test_pipelines.sh --junitxml=build/pipelines.xml >build/pipelines.log 2>&1 &
pipelines=$!
scripts/test_oldest.sh fetch >build/oldest.log 2>&1 &
oldest=$!
printf '\n== pytest\n'
# One more process than there are cores: half of what a test with a Spark of its own does is to wait.
nice -n 5 pytest -m 'not rdma' --ignore=tests/pipelines --ignore=tests/iceberg -n $(($(nproc) + 1)) --dist loadfile --no-loadscope-reorder --junitxml=build/pytest.xml || status=$?
wait $oldest || cat build/oldest.log >&2
scripts/test_oldest.sh || status=1
wait $pipelines || status=1
cat build/pipelines.log
wait $lab || status=1
cat build/rdma.log
python scripts/not_covered.py build/pytest.xml build/rdma/pytest.xml build/iceberg.xml build/pipelines.xml
printf 'make test took %d s\n' $((SECONDS - started))
exit $status
