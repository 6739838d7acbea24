# What can't be merged is refused, named, and left alone, while the rest is done: exit code 3.
# shellcheck shell=bash
split_image
id=$(start split)
trap 'docker rm -f "$id" >/dev/null 2>&1' EXIT
inside() { docker exec "$id" "$@"; }
inside sh -c "printf x >>$site/_rocm_sdk_devel/lib/librocblas.so.5"
expect_exit 3 inside rocm-fixup dedup --format json
expect_json 'r["exit_code"]' 3
expect_json 'any(c["path"].endswith("/_rocm_sdk_devel/lib/librocblas.so.5") and c["reason"] == "content" for c in r["dedup"]["conflicts"])' True
expect_json 'any(l["path"].endswith("/_rocm_sdk_devel/lib/libamd_comgr.so.3") for l in r["dedup"]["linked"])' True
inside sh -c "tail -c 1 $site/_rocm_sdk_devel/lib/librocblas.so.5" | grep -q x || fail "the conflicting file was changed"
