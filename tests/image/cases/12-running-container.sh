# The same fix by a person in a container of the broken image, and the way back.
# shellcheck shell=bash
split_image
id=$(start split)
trap 'docker rm -f "$id" >/dev/null 2>&1' EXIT
inside() { docker exec "$id" "$@"; }
# What the tree looks like: names, kinds, link targets, inode groups, contents.
picture() { inside python3 /inside/picture.py; }

picture >"$work/before"
expect_abort inside python3 /inside/open.py "$core_comgr" "$devel_comgr"
expect_exit 4 inside rocm-fixup status
expect_exit 0 inside rocm-fixup dedup --format json
expect_json 'len(r["dedup"]["linked"]) > 0' True
inside python3 /inside/sdk.py one
inside python3 /inside/sdk.py orders
expect_exit 0 inside rocm-fixup status
expect_exit 0 inside rocm-fixup dedup --format json
expect_json 'len(r["dedup"]["linked"])' 0

expect_exit 0 inside rocm-fixup undo
picture >"$work/after"
diff "$work/before" "$work/after" >"$work/difference" || fail "undo left a difference: $(head -n 4 "$work/difference" | tr '\n' '|')"
expect_abort inside python3 /inside/open.py "$core_comgr" "$devel_comgr"
