"""Opens libraries by path, in the order given, as rocm_sdk.initialize_process does: RTLD_GLOBAL, absolute paths."""

import ctypes
import sys

for path in sys.argv[1:]:
    ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    print("opened", path, flush=True)
