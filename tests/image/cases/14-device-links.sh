# Device manifest entries must stay hard links, or `rocm-sdk path` makes them anew on each call.
# shellcheck shell=bash
split_image
expect_exit 1 in_image split python3 /inside/sdk.py device
{ sdk_lines; fixup_line rocm-fixup dedup --device-links; } | build device-links
in_image device-links python3 /inside/sdk.py device
in_image device-links python3 /inside/sdk.py one
# Nothing left to link for the SDK itself.
expect_exit 0 in_image device-links rocm-sdk path
if grep -q 'linked' "$work/out"; then fail "rocm-sdk had to link device files again: $(tr '\n' '|' <"$work/out")"; fi
expect_exit 0 in_image device-links rocm-fixup dedup --device-links --format json
expect_json 'len(r["dedup"]["linked"])' 0
