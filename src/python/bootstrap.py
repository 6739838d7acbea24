import sys
from os import close, write
path, ask, answer = sys.argv[1:]
version = '%d.%d.%d' % sys.version_info[:3]
def say(what, text):
    write(int(answer), ('!%s %s\n' % (what, ' '.join(str(text).split()))).encode('utf-8', 'replace'))
if sys.implementation.name != 'cpython':
    say('foreign', sys.implementation.name + ' ' + version)
elif sys.version_info < (3, 8):
    say('old', version)
elif 't' in sys.abiflags:
    say('free-threaded', version)
else:
    # What importlib.machinery and importlib.util hand on, without the 5 ms that importing those takes.
    from _frozen_importlib import ModuleSpec, module_from_spec
    from _frozen_importlib_external import ExtensionFileLoader
    loader = ExtensionFileLoader('rocm_fixup_probe', path)
    try:
        probe = module_from_spec(ModuleSpec('rocm_fixup_probe', loader, origin=path))
        loader.exec_module(probe)
    except ImportError as error:
        say('unloadable', error)
    else:
        # Its descriptor would be inherited by all that the image's code starts.
        if path.startswith('/proc/self/fd/'):
            close(int(path[14:]))
        probe.run(int(ask), int(answer))
