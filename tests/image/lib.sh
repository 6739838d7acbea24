# What the cases share. Sourced by `run`, in a shell with -euo pipefail; a case succeeds if it returns.
# shellcheck shell=bash
# Set by `run`: here (this folder), ctx (the lab's context folder, seen from outside), work (a scratch folder, ditto),
# uses_binary.

# Dies with the reason that the "not ok" line gives.
fail() { echo "reason: $*" >&2; exit 1; }

lab() { "$here/lab" "$@"; }
docker() { "$here/lab" docker "$@"; }

# The lines that every image begins with: an SDK installed in one layer, made hard links in a later one.
sdk_lines() {
  cat <<'DOCKERFILE'
FROM rf-base
RUN --mount=type=bind,source=wheels,target=/wheels pip install -q --no-index --find-links /wheels \
    rocm rocm-sdk-core rocm-sdk-libraries rocm-sdk-device-gfx950 rocm-sdk-devel
RUN rocm-sdk init && ln -s /opt/venv/lib/python3.11/site-packages/_rocm_sdk_devel /opt/rocm
DOCKERFILE
}

# A RUN with the binary in it for that one line, as our README advises. fixup_line 'rocm-fixup dedup'
fixup_line() {
  echo "RUN --mount=type=bind,source=rocm-fixup,target=/usr/local/bin/rocm-fixup $*"
}

# build TAG <DOCKERFILE: by BuildKit, without a network; the log is kept as $work/TAG.log.
build() {
  docker build --network none --provenance=false -t "rf-$1" -f - /ctx/kit >"$work/$1.log" 2>&1 ||
    fail "the build of rf-$1 failed: $(grep -vE '^(#[0-9]+ )?(DONE|CACHED|sha256)' "$work/$1.log" | tail -n 4 | tr '\n' '|')"
}

# The common image of the cases, built by whichever case comes first.
split_image() { sdk_lines | build split; }

mounts=(--network none -v /ctx/kit/inside:/inside:ro -v /ctx/kit/wheels:/wheels:ro
  -v /ctx/kit/rocm-fixup:/usr/local/bin/rocm-fixup:ro)

# in_image TAG COMMAND…: in a new container, with our scripts and the binary at hand. Never as its process 1: abort()
# has no effect there, and the death of an LLVM loaded twice would be another one (SIGSEGV, 139).
in_image() {
  local tag=$1
  shift
  docker run --rm "${mounts[@]}" \
    "rf-$tag" sh -c '"$@"; exit $?' sh "$@"
}

# start TAG: a container that stays, for cases that change something in it and look again; its id on stdout.
start() {
  docker run -d "${mounts[@]}" "rf-$1" sleep infinity
}

# expect_exit CODE COMMAND…: stdout and stderr of the command go to $work/out and on to nowhere else.
expect_exit() {
  local expected=$1 got=0
  shift
  "$@" >"$work/out" 2>&1 || got=$?
  [ "$got" = "$expected" ] || fail "exit code $got, expected $expected, of: $* | $(tail -n 4 "$work/out" | tr '\n' '|')"
}

expect_text() { grep -qE -- "$1" "$work/out" || fail "no \"$1\" in the output: $(tail -n 4 "$work/out" | tr '\n' '|')"; }

# json FILTER: what jq's language would give of the report in $work/out; python, since a new machine has no jq.
# The filter is a Python expression over `r`.
json() {
  python3 -c 'import json,sys; text=open(sys.argv[1]).read(); r=json.loads(text[text.index("{"):]); print(eval(sys.argv[2]))' \
    "$work/out" "$1" || fail "the report is not the JSON that was expected: $(head -c 300 "$work/out")"
}

expect_json() {
  local got
  got=$(json "$1")
  [ "$got" = "$2" ] || fail "$1 is $got, expected $2"
}

# Two copies of LLVM in one process: the message and the signal that users see.
expect_abort() {
  local got=0
  "$@" >"$work/out" 2>&1 || got=$?
  [ "$got" = 134 ] || fail "expected an abort (134), got exit code $got: $(tail -n 3 "$work/out" | tr '\n' '|')"
  expect_text 'CommandLine Error: Option .* registered more than once!'
  expect_text 'LLVM ERROR: inconsistency in registered CommandLine options'
}

site=/opt/venv/lib/python3.11/site-packages
core_comgr=$site/_rocm_sdk_core/lib/libamd_comgr.so.3
devel_comgr=$site/_rocm_sdk_devel/lib/libamd_comgr.so.3

# Size in bytes of the newest layer of an image, uncompressed.
top_layer() { docker history --human=false --format '{{.Size}}' "rf-$1" | head -n 1; }

# What the recipe miles-rocm10 is for, all before the one RUN of ours.
miles_lines() {
  sdk_lines
  cat <<'DOCKERFILE'
RUN --mount=type=bind,source=wheels,target=/wheels pip install -q --no-index --find-links /wheels \
    torch==2.10.0+rocm10.0.0 apex==1.10.0 torch_memory_saver==0.0.9 tilelang tile-kernels
DOCKERFILE
}

# In a container, where the wheels are mounted as well.
pip_install="pip install -q --no-index --find-links /wheels --no-deps --force-reinstall"
