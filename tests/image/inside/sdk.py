"""What the SDK's libraries look like inside an image.

    sdk.py files     for each library all its names, each with inode and whether it is a link; one line a library
    sdk.py split     succeeds if every library is more than one file
    sdk.py one       succeeds if every library is one file, under whichever of its names
    sdk.py device    succeeds if every entry of the device manifests is a regular file with its twin's inode
    sdk.py orders    opens two names of one library in one process, for every ordered pair of names that can make a
                     difference (the owner's and one of devel's); succeeds if no process dies
"""

import filecmp
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

SITE = next(Path("/opt/venv/lib").glob("python3*/site-packages"))
DEVEL = SITE / "_rocm_sdk_devel"


def manifest_entries() -> list[tuple[Path, Path]]:
    pairs = []
    for manifest in SITE.glob("_rocm_sdk_libraries*/.devel_links/*.json"):
        for link in json.loads(manifest.read_text())["links"]:
            place = DEVEL / link["relpath"]
            pairs.append((place, (place.parent / link["target"]).resolve()))
    return pairs


def libraries() -> dict[Path, list[Path]]:
    """The owner's file, and all names in devel that bring the same bytes: the same one, and the aliases beside it."""
    device = {owner for _, owner in manifest_entries()}
    found = {}
    for tree in ("_rocm_sdk_core", "_rocm_sdk_libraries"):
        for owner in sorted((SITE / tree / "lib").rglob("*.so*")):
            twin = DEVEL / owner.relative_to(SITE / tree)
            if owner not in device and twin.parent.is_dir():
                found[owner] = sorted(p for p in twin.parent.glob("*.so*") if filecmp.cmp(p, owner, shallow=False))
    if not found:
        raise SystemExit("no library of the SDK found")
    return found


def inodes(owner: Path, names: list[Path]) -> set[int]:
    return {os.stat(p).st_ino for p in [owner, *names]}


def files() -> None:
    for owner, names in libraries().items():
        kinds = [f"{p.name}:{'link' if p.is_symlink() else 'file'}:{os.stat(p).st_ino}" for p in names]
        print(owner.relative_to(SITE), os.stat(owner).st_ino, *kinds)


def expect(word: str) -> None:
    many, one = [], []
    for owner, names in libraries().items():
        (many if len(inodes(owner, names)) > 1 else one).append(owner.name)
    wrong = one if word == "split" else many
    if wrong:
        raise SystemExit(f"expected each library to be {word}; not so: {', '.join(wrong)}")
    print(f"{len(many)} split, {len(one)} one")


def device() -> None:
    entries = manifest_entries()
    for place, owner in entries:
        if place.is_symlink() or not os.path.samefile(place, owner):
            raise SystemExit(f"{place.relative_to(SITE)} is not a hard link of its twin")
    print(f"{len(entries)} manifest entries are hard links")


def orders() -> None:
    done = 0
    for owner, names in libraries().items():
        for pair in itertools.chain.from_iterable(((owner, n), (n, owner)) for n in names):
            run = subprocess.run([sys.executable, Path(__file__).with_name("open.py"), *pair], capture_output=True, text=True)
            if run.returncode:
                raise SystemExit(f"{pair[0]} then {pair[1]}: exit {run.returncode}: {run.stderr.strip()[-300:]}")
            done += 1
    print(f"{done} pairs opened")


if __name__ == "__main__":
    word = sys.argv[1]
    {"files": files, "device": device, "orders": orders}.get(word, lambda: expect(word))()
