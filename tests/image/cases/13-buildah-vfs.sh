# buildah on vfs copies the tree for each layer and loses links by that: the split is there within the build already.
# shellcheck shell=bash
buildah() { "$here/lab" exec buildah --storage-driver vfs "$@"; }
# buildah would raise limits, which a container or a sandbox may forbid: keep those that there are. What an isolation
# of chroot lacks, a network of its own for one, our builds don't need.
limits=(--ulimit "nofile=$(ulimit -Hn):$(ulimit -Hn)" --ulimit "nproc=$(ulimit -Hu):$(ulimit -Hu)")
buildah_build() {
  buildah build --isolation chroot --network host "${limits[@]}" --layers -t "localhost/$1" -f - /ctx >"$work/buildah.log" 2>&1 ||
    fail "buildah: $(tail -n 4 "$work/buildah.log" | tr '\n' '|')"
}

# buildah has a store of its own, so that the base has to be made again there. It stays there for the next run.
{
  cat <<'DOCKERFILE'
FROM scratch
ADD base/rootfs.tar /
ENV PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin VIRTUAL_ENV=/opt/venv LANG=C.UTF-8
RUN python3 -m venv /opt/venv
DOCKERFILE
  sdk_lines | sed -e 1d -e 's|source=wheels|source=kit/wheels|'
} | buildah_build rf-buildah-split

image=localhost/rf-buildah-fixed
trap 'buildah rm --all >/dev/null 2>&1; buildah rmi --force $image >/dev/null 2>&1 || true' EXIT
# A RUN for each look, since it must see what a layer became, not what it is while it is made.
cat <<'DOCKERFILE' | buildah_build rf-buildah-fixed
FROM localhost/rf-buildah-split
RUN --mount=type=bind,source=kit/inside,target=/inside python3 /inside/sdk.py split
RUN --mount=type=bind,source=kit/rocm-fixup,target=/usr/local/bin/rocm-fixup rocm-fixup dedup
RUN --mount=type=bind,source=kit/inside,target=/inside python3 /inside/sdk.py one && python3 /inside/sdk.py orders
DOCKERFILE
# And in the image that came out of it, mounted anew.
container=$(buildah from "${limits[@]}" --pull-never $image)
buildah run --isolation chroot --network host -v /ctx/kit/inside:/inside:ro "$container" -- python3 /inside/sdk.py one
