# buildah on vfs copies the tree for each layer and loses links by that: the split is there within the build already.
# shellcheck shell=bash
buildah() { "$here/lab" exec buildah --storage-driver vfs "$@"; }
# Like rf-base, but buildah has its own store, so that the base has to be made again there.
base_lines() {
  cat <<'DOCKERFILE'
FROM scratch
ADD base/rootfs.tar /
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin VIRTUAL_ENV=/opt/venv LANG=C.UTF-8
RUN python3 -m venv /opt/venv
DOCKERFILE
}
image=localhost/rf-buildah
trap 'buildah rm --all >/dev/null 2>&1; buildah rmi --force $image >/dev/null 2>&1 || true' EXIT
{
  base_lines
  sdk_lines | sed -e 1d -e 's|source=wheels|source=kit/wheels|'
  # Two RUNs, as a check must look at what a layer became, not at what it is while it is made.
  echo "RUN --mount=type=bind,source=kit/inside,target=/inside python3 /inside/sdk.py split"
  echo "RUN --mount=type=bind,source=kit/rocm-fixup,target=/usr/local/bin/rocm-fixup rocm-fixup dedup"
  echo "RUN --mount=type=bind,source=kit/inside,target=/inside python3 /inside/sdk.py one && python3 /inside/sdk.py orders"
} | buildah build --isolation chroot --layers --network none -t $image -f - /ctx >"$work/buildah.log" 2>&1 ||
  fail "buildah: $(tail -n 4 "$work/buildah.log" | tr '\n' '|')"
# And in the image that came out of it, mounted anew.
container=$(buildah from --pull-never $image)
buildah run --isolation chroot --network none -v /ctx/kit/inside:/inside:ro "$container" -- python3 /inside/sdk.py one
