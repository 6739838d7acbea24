# What examples/running-container.md tells people to type, typed: the lines of its `sh` blocks, in order, in a container.
# shellcheck shell=bash
split_image
id=$(start split)
trap 'docker rm -f "$id" >/dev/null 2>&1' EXIT
sed -n '/^```sh$/,/^```$/{/^```/!p}' "$here/../../examples/running-container.md" >"$work/lines"
[ -s "$work/lines" ] || fail "no lines found in the document"
while read -r line <&3; do
  command=${line%%#*}
  code=0
  [[ $line =~ '# exit '([0-9]+) ]] && code=${BASH_REMATCH[1]}
  expect_exit "$code" docker exec "$id" sh -c "$command"
done 3<"$work/lines"
echo "$(wc -l <"$work/lines") lines typed"
