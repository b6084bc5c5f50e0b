# Sourced by scripts that fetch, part by part, what tests need into a folder. They set `name`, theirs without .sh, `folder`,
# and `jars`, the folder of a PySpark's jars, which has Ivy; `fetch_PART` fetches a part, and ends with the status of what
# may fail: `set -e` does not hold in there.

retrieve() { # part, organisation, module, revision; more options
  local log=$folder/$1/log
  java -jar "$jars"/ivy-*.jar -warn -m2compatible -cache "$folder/cache" -confs default -dependency "${@:2:3}" \
    -retrieve "$folder/$1/[artifact]-[revision].[ext]" "${@:5}" >"$log" 2>&1 ||
    { printf '%s: no %s %s: see %s\n' "$name" "$3" "$4" "$log" >&2 && false; }
}

fetch_parts() { # where they come from, parts: those that are not there yet. What cannot be fetched is named
  local from=$1 part complete missing=()
  shift
  for part; do
    complete=$folder/$part/.complete
    if [ -e "$complete" ] && [ "$complete" -nt "scripts/$name.sh" ]; then continue; fi
    rm -rf "${folder:?}/$part"
    mkdir -p "$folder/$part"
    if "fetch_$part"; then touch "$complete"; else missing+=("$part"); fi
  done
  rm -rf "$folder/cache"
  if [ ${#missing[@]} != 0 ]; then
    printf '%s: NOT FETCHED from %s: %s\n' "$name" "$from" "${missing[*]}" >&2
    return 1
  fi
}
