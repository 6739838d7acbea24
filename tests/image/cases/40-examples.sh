# The Dockerfiles in examples/, built as they stand, on the base and with the wheels of these tests.
# shellcheck shell=bash
for example in "$here"/../../examples/*/Dockerfile; do
  name=$(basename "$(dirname "$example")")
  build "example-$name" <"$example"
  in_image "example-$name" python3 /inside/sdk.py one
  in_image "example-$name" python3 /inside/sdk.py orders
  expect_exit 0 in_image "example-$name" rocm-fixup status
  expect_exit 0 in_image "example-$name" rocm-fixup run --recipe "$name"
  # The binary was mounted for one RUN, and nothing of it stays.
  expect_exit 127 docker run --rm --network none "rf-example-$name" sh -c 'command -v rocm-fixup'
  echo "$name: $(top_layer "example-$name") bytes in the last layer"
done
