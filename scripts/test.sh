#!/usr/bin/env bash
# Native tests, and a tenth of pytest's, drawn by the commit; with WHOLE=1 every test. At the end, loudly, what this
# machine could not run.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build
started=$SECONDS
seed=$(git rev-parse HEAD 2>/dev/null || date +%F)
draw=(--tenth "$seed")
[ -z "${WHOLE:-}" ] || draw=()
rm -rf build/running
at_the_end() {
  trap - INT TERM
  printf '\ntest: ended after %d s, at\n' $((SECONDS - started))
  cat build/running/* 2>/dev/null || printf 'no test of pytest yet\n'
  kill 0 # what runs in the background would not hear of an interrupt
}
trap at_the_end INT TERM

scripts/class_archive.sh &
archive=$!
scripts/hadoop.sh >build/hadoop.log 2>&1 &
hadoop=$!
scripts/clients.sh >build/clients.log 2>&1 &
clients=$!
scripts/test_native.sh
status=0
wait $archive
rm -f build/pytest.xml build/rdma/pytest.xml build/iceberg.xml build/pipelines.xml build/alone.xml
wait $hadoop || { cat build/hadoop.log >&2 && printf 'test: so not every cluster and store is tested\n' >&2; }
wait $clients || { cat build/clients.log >&2 && printf 'test: so clients of Spark Connect are not tested\n' >&2; }
scripts/watch_tools.sh || printf 'test: so not everything that users see is looked at\n' >&2
mapfile -t rdma < <(grep -rl --include='test_*.py' 'mark\.rdma' tests)
# An emulated host would take half a minute to import hypothesis, which these files do not use.
in_lab() {
  scripts/rxe_lab/lab run --hosts 2 --seconds 1800 --results build/rdma -- pytest -m rdma "${draw[@]}" "${rdma[@]}" \
    --junitxml=/lab/pytest.xml -p no:cacheprovider -p no:hypothesispytest
}
rdma() {
  if compgen -G '/sys/class/infiniband/*' >/dev/null; then
    printf '\n== pytest, RDMA tests on this machine'\''s device\n'
    pytest -m rdma "${draw[@]}" "${rdma[@]}" --junitxml=build/rdma/pytest.xml
  else
    printf '\n== pytest, RDMA tests in two QEMU hosts with Soft-RoCE\n'
    in_lab && ended=0 || ended=$?
    # 124: a host itself has ended, by a fault of its kernel or for want of memory. Once that is told and tried again.
    [ $ended != 124 ] || { in_lab && ended=0 || ended=$?; }
    # 125: no lab to be had here. That is told below, and is no failure of ours.
    [ $ended = 0 ] || [ $ended = 125 ]
  fi
}
# Beside all that follows, which makes way: an emulated host has one core, and is slow enough with all of it.
rdma >build/rdma.log 2>&1 &
lab=$!
# Who talks to a broker waits most of the time.
nice -n 10 scripts/test_pipelines.sh "${draw[@]}" --junitxml=build/pipelines.xml >build/pipelines.log 2>&1 &
pipelines=$!
scripts/schemas.sh || printf 'test: so not every file for others is checked\n' >&2
nice -n 10 scripts/test_oldest.sh fetch >build/oldest.log 2>&1 &
oldest=$!
alone=(tests/driver/test_plugin_connect.py tests/streaming/streams/test_streams_of_clients.py
  tests/streaming/test_{processors,processor_examples,chained_processors,changed_processors,moving_processors,initial_state,frames}.py)
printf '\n== pytest\n'
# One more process than there are cores: half of what a test with a Spark of its own does is to wait.
nice -n 10 pytest -m 'not rdma' "${draw[@]}" --ignore=tests/pipelines --ignore=tests/iceberg "${alone[@]/#/--ignore=}" -n $(($(nproc) + 1)) --dist loadfile --no-loadscope-reorder --junitxml=build/pytest.xml || status=$?
wait $oldest || cat build/oldest.log >&2
nice -n 10 scripts/test_oldest.sh test "${draw[@]}" || status=1
wait $pipelines || status=1
cat build/pipelines.log
wait $lab || status=1
cat build/rdma.log
# By themselves: Spark gives the worker of a client's function, and of a processor's init, ten seconds to start, which a busy
# machine may not have.
printf '\n== pytest with Spark Connect, and with processors\n'
pytest "${draw[@]}" "${alone[@]}" --junitxml=build/alone.xml || status=1
python scripts/not_covered.py build/pytest.xml build/rdma/pytest.xml build/iceberg.xml build/pipelines.xml build/alone.xml
[ -n "${WHOLE:-}" ] || printf 'A tenth of the tests was drawn by %s. make test WHOLE=1 runs all.\n' "$seed"
printf 'make test took %d s\n' $((SECONDS - started))
exit $status
