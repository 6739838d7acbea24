# The defect itself: BuildKit with the containerd image store splits what looked intact in the build.
# shellcheck shell=bash
{ sdk_lines; echo "RUN --mount=type=bind,source=inside,target=/inside python3 /inside/sdk.py one"; } | build intact-in-build
split_image
in_image split python3 /inside/sdk.py split
expect_abort in_image split python3 /inside/open.py "$core_comgr" "$devel_comgr"
expect_abort in_image split python3 /inside/open.py "$devel_comgr" "$core_comgr"
echo "layer that makes the links: $(top_layer split) bytes"
