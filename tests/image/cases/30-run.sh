# `RUN rocm-fixup run` as the only line of the last layer: the final image passes the checks that fail without it.
# shellcheck shell=bash
miles_lines | build miles-without
expect_exit 4 in_image miles-without rocm-fixup smoke --libraries --format json
expect_json 'any(c["verdict"] == "signal" and "libamd_comgr" in str(c) for c in r["checks"])' True
expect_exit 4 in_image miles-without rocm-fixup smoke tile_kernels --preload torch
expect_exit 4 in_image miles-without rocm-fixup status

{ miles_lines; fixup_line rocm-fixup run; } | build miles
size=$(top_layer miles)
[ "$size" -lt 1000000 ] || fail "the layer of the run has $size bytes"
echo "layer of the run: $size bytes"
in_image miles python3 /inside/sdk.py one
in_image miles python3 /inside/sdk.py orders
expect_exit 0 in_image miles rocm-fixup smoke --libraries
expect_exit 0 in_image miles rocm-fixup smoke tile_kernels --preload torch
expect_exit 0 in_image miles rocm-fixup status
expect_exit 0 in_image miles rocm-fixup run --format json
expect_json 'len(r["dedup"]["linked"])' 0
expect_json '{p["state"] for p in r["patches"]} - {"already", "not-applicable"}' 'set()'
expect_json 'sorted({c["verdict"] for c in r["checks"]} - {"skipped"})' "['ok']"
