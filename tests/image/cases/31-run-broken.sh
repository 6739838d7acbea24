# One thing broken at a time: each has its verdict and its exit code.
# shellcheck shell=bash
miles_lines | build miles-without

# broken WHAT EXIT PYTHON-EXPRESSION SHELL [COMMAND…]: in a fresh container, break something, run, look at the report.
broken() {
  local what=$1 code=$2 filter=$3 damage=$4
  shift 4
  [ $# -gt 0 ] || set -- rocm-fixup run
  in_image miles-without sh -ec "$damage" >/dev/null || fail "$what: could not be broken"
  (expect_exit "$code" in_image miles-without sh -c "{ $damage; } >/dev/null 2>&1; $* --format json" &&
    expect_json "$filter" True) 2>"$work/why" || fail "$what: $(sed -n 's/^reason: //p' "$work/why")"
  echo "$what: exit $code"
}
check() { echo "any(c['verdict'] == '$1' and '$2' in str(c) for c in r['checks'])"; }
tk=$site/tile_kernels

broken "torch replaced by another build" 4 "$(check fail torch)" "$pip_install torch===2.10.0"
broken "torch without its library" 4 "$(check import-error stand_in_hip_stream)" "rm $site/torch/lib/libtorch_hip.so"
broken "an extension that aborts" 4 "$(check signal SIGABRT)" "$pip_install apex==1.10.1"
broken "torch_memory_saver of another commit" 4 "$(check fail torch-memory-saver)" "$pip_install torch_memory_saver==0.0.8"
broken "torch_memory_saver of no known commit" 4 "$(check unproven torch-memory-saver)" "$pip_install torch_memory_saver==0.0.7"
broken "apex gone, but its metadata there" 4 "$(check absent fused_weight_gradient_mlp_cuda)" "rm $site/fused_weight_gradient_mlp_cuda*"
broken "nvidia-resiliency-ext on an old glibc" 4 "$(check fail nvrx-glibc)" \
  "python3 -m zipfile -e /wheels/nvidia_resiliency_ext-*.whl $site"
broken "pybind11 too new for vLLM" 4 "$(check fail pybind11)" "$pip_install pybind11==3.1.0" rocm-fixup run --recipe vllm-rocm
broken "a library that differs" 3 "r['dedup']['conflicts'] != [] and r['dedup']['linked'] != []" \
  "printf x >>$site/_rocm_sdk_devel/lib/librocblas.so.5"
broken "a file of tile_kernels edited" 3 "any(p['state'] in ('conflict', 'drifted') for p in r['patches'])" \
  "sed -i 's/^import tilelang/import tilelang as tl/' $tk/__init__.py"
broken "an SDK that was not expanded" 3 "r['exit_code'] == 3" \
  "rm -rf $site/_rocm_sdk_devel && $pip_install rocm-sdk-devel"
broken "a refused step stops before the checks" 3 "not any(c['kind'] == 'smoke' and c['verdict'] == 'ok' for c in r['checks'])" \
  "sed -i 's/^import tilelang/import tilelang as tl/' $tk/__init__.py"

# What does not apply is skipped with its reason, and is no failure.
broken "APEX_USE_PREBUILT=0" 0 "$(check skipped APEX_USE_PREBUILT)" "true" env APEX_USE_PREBUILT=0 rocm-fixup run
broken "no apex at all" 0 "$(check skipped apex)" "pip uninstall -qy apex"
