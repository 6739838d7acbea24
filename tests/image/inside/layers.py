#!/usr/bin/env python3
"""layers.py ARCHIVE SKIP: uncompressed sizes in bytes of the layers of a saved image, from the SKIP-th on, a line each."""

import gzip
import json
import sys
import tarfile

with tarfile.open(sys.argv[1]) as archive:
    for layer in json.load(archive.extractfile("manifest.json"))[0]["Layers"][int(sys.argv[2]) :]:
        member = archive.getmember(layer)
        if member.issym():  # equal layers, in the archives of the classic docker
            member = archive.getmember(member.linkname.removeprefix("../"))
        data = archive.extractfile(member)
        if data.read(2) == b"\x1f\x8b":
            data.seek(0)
            data = gzip.open(data)
        data.seek(0)
        size = 0
        while block := data.read(1 << 20):
            size += len(block)
        print(size)
