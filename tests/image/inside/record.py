"""record.py DISTRIBUTION…: do the files have the sizes and hashes that RECORD says, as `pip check`-like tools assume?"""

import base64
import hashlib
import importlib.metadata
import sys

for name in sys.argv[1:]:
    rows = 0
    for file in importlib.metadata.files(name):
        if file.hash is None:
            continue
        content = file.locate().read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.new(file.hash.mode, content).digest()).rstrip(b"=").decode()
        if digest != file.hash.value or len(content) != file.size:
            raise SystemExit(f"{file} is not what RECORD says")
        rows += 1
    print(f"{name}: {rows} rows hold")
