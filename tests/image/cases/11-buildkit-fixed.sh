# One more RUN in the same build, where every library still looks like one file.
# shellcheck shell=bash
{ sdk_lines; fixup_line rocm-fixup dedup; } | build fixed
in_image fixed python3 /inside/sdk.py one
in_image fixed python3 /inside/sdk.py orders
size=$(top_layer fixed)
[ "$size" -lt 1000000 ] || fail "the layer of the fix has $size bytes"
echo "layer of the fix: $size bytes"

# ldconfig re-points links by SONAME; nothing may come back by that.
in_image fixed sh -ec 'cd /opt/venv/lib/python3.11/site-packages; ldconfig $PWD/_rocm_sdk_core/lib $PWD/_rocm_sdk_devel/lib
  python3 /inside/sdk.py one; python3 /inside/sdk.py orders'
# The SDK's own init, which looks at device files on every call, leaves our links alone.
in_image fixed sh -ec 'rocm-sdk init; python3 /inside/sdk.py one; python3 /inside/sdk.py orders'

expect_exit 0 in_image fixed rocm-fixup dedup --format json
expect_json 'len(r["dedup"]["linked"])' 0
expect_json 'r["dedup"]["already"] > 0' True
