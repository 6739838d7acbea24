# Patches in a layer of their own, after the one with `pip install`. The differ may drop a file whose size and mtime are
# those of the layer below, hence the edit that keeps the size.
# shellcheck shell=bash
install_lines() {
  cat <<'DOCKERFILE'
FROM rf-base
RUN --mount=type=bind,source=wheels,target=/wheels pip install -q --no-index --find-links /wheels \
    torch==2.10.0+rocm10.0.0 tilelang tile-kernels
DOCKERFILE
}
install_lines | build unpatched
in_image unpatched sh -c 'python -c "import tile_kernels" 2>&1 | grep -q "No module named\|ImportError\|Error"' ||
  fail "tile_kernels can be imported without a patch, so this case proves nothing"

{
  install_lines
  fixup_line rocm-fixup patch
  # Judged within the RUN: a build whose lines are all cached prints nothing.
  fixup_line 'said=$(rocm-fixup patch) && echo "$said" && echo "$said" | grep -q "^already "'
  echo "RUN --mount=type=bind,source=inside,target=/inside" \
    "--mount=type=bind,source=rocm-fixup,target=/usr/local/bin/rocm-fixup rocm-fixup patch --from /inside/patches"
} | build patched

# The new text is in the final image, for all files of both recipes' patches and for the same-size one.
tk=$site/tile_kernels
expect_exit 1 in_image patched grep -q '^import tilelang' "$tk/__init__.py"
expect_exit 1 in_image patched grep -q 'pdl_sync' "$tk/mhc/post_kernel.py"
expect_exit 0 in_image patched grep -q '^_num_sms = 7$' "$tk/config.py"
expect_exit 0 in_image patched grep -q '__hip_cvt_fp8_to_halfraw' "$site/tilelang/src/tl_templates/hip/hip_fp8.h"
# And Python runs the new text, not bytecode of the old one.
expect_exit 0 in_image patched python -c 'import tile_kernels.config as c; assert c._num_sms == 7'
in_image patched python /inside/record.py tile-kernels tilelang

expect_exit 0 in_image patched rocm-fixup patch --format json
expect_json 'sorted({p["state"] for p in r["patches"]})' "['already']"

# And back, in a container, to the bytes of the wheel.
expect_exit 0 in_image patched sh -ec 'rocm-fixup undo --all; python /inside/record.py tile-kernels tilelang
  grep -q "^import tilelang" '"$tk"'/__init__.py; grep -q "^_num_sms = 0" '"$tk"'/config.py'
echo "layer of the same-size patch: $(top_layer patched) bytes"
