"""A picture of the site-packages that two states can be compared by: names, kinds, modes, link targets, contents, and
which names are one file. No inode numbers and no times: those may differ between two equal states."""

import hashlib
import os
import stat
from pathlib import Path

SITE = next(Path("/opt/venv/lib").glob("python3*/site-packages"))
OURS = {".rocm-fixup", "__pycache__"}  # the journal stays after an undo; bytecode comes by running Python

first_name: dict[int, str] = {}
digests: dict[int, str] = {}
for path in sorted(SITE.rglob("*")):
    name = path.relative_to(SITE)
    if OURS & set(name.parts):
        continue
    info = path.lstat()
    mode = f"{stat.S_IMODE(info.st_mode):o} {info.st_uid}:{info.st_gid}"
    if path.is_symlink():
        print(name, "->", os.readlink(path))
    elif path.is_dir():
        print(f"{name}/", mode)
    else:
        if info.st_ino not in digests:
            digests[info.st_ino] = hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()
        same_as = first_name.setdefault(info.st_ino, str(name))
        print(name, mode, digests[info.st_ino], f"is {same_as}" if info.st_nlink > 1 else "")
