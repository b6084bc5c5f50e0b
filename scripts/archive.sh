#!/usr/bin/env bash
# dist/pyslash-env.tar.gz: an environment with pyslash for the containers of YARN (spark-conf/yarn.conf), by venv-pack. PySpark
# is not in it, as Spark brings its own into every container. Hosts need the Python that it was made with, at the same path.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/build/archive
tag=$(.venv/bin/python -c 'import sys; print("cp311" if sys.version_info[:2] == (3, 11) else "cp312")')
scripts/wheels.sh "$tag"
wheel=$(echo dist/pyslash_streaming-*-"$tag"-*.whl)

rm -rf "$work"
"$(.venv/bin/python -c 'import sys; print(sys._base_executable)')" -m venv "$work/pyslash-env"
pip=("$work/pyslash-env/bin/pip" --disable-pip-version-check --quiet)
mapfile -t needed < <(.venv/bin/python - "$wheel" <<'PY'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    metadata = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    lines = wheel.read(metadata).decode().partition("\n\n")[0].splitlines()
names = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")]
print("\n".join(name for name in names if not name.startswith("pyspark") and "extra ==" not in name))
PY
)
"${pip[@]}" install "${needed[@]}"
"${pip[@]}" install --no-deps "$wheel"
# venv-pack would have the command ask a container's PATH for a Python. Its own is the one beside it, wherever that is.
cat >"$work/head" <<'SH'
#!/bin/sh
'''exec' "$(dirname "$0")/python" "$0" "$@"
' '''
SH
script=$work/pyslash-env/bin/pyslash
tail -n +2 "$script" | cat "$work/head" - >"$work/pyslash"
cat "$work/pyslash" >"$script"
build/wheels/tools/bin/venv-pack --quiet --force -p "$work/pyslash-env" -o dist/pyslash-env.tar.gz
printf 'archive: %s\n' "$PWD/dist/pyslash-env.tar.gz" >&2
