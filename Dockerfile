# An image that holds nothing but the binary, to copy or to mount it from:
#
#   COPY --from=rocm-fixup /rocm-fixup /usr/local/bin/
#   RUN --mount=type=bind,from=rocm-fixup,source=/rocm-fixup,target=/usr/local/bin/rocm-fixup rocm-fixup run
#
# `docker build -t rocm-fixup .` compiles it. A binary that is there already takes the place of the stage `build`:
#   docker build -t rocm-fixup --build-context build=DIR .     with DIR/out/rocm-fixup
#
# x86_64 only, as ROCm's wheels are.
ARG RUST=rust:1.95-slim-bookworm
FROM ${RUST} AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --locked --release && \
    install -D target/x86_64-unknown-linux-gnu/release/rocm-fixup /out/rocm-fixup

FROM scratch
ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="rocm-fixup" \
      org.opencontainers.image.description="Makes container images built on AMD's ROCm wheel SDK sound" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
COPY --from=build /out/rocm-fixup /rocm-fixup
ENTRYPOINT ["/rocm-fixup"]
