# The last resort where no module can be loaded: directories only, as NUL-separated key and value.
import os, site, sys
out = []
def say(key, value):
    out.append(key.encode() + b'\0' + (value if isinstance(value, bytes) else os.fsencode(value)) + b'\0')
say('version', '%d.%d.%d' % sys.version_info[:3])
say('implementation', sys.implementation.name)
say('executable', sys.executable or '')
say('prefix', sys.prefix)
say('machine', os.uname().machine)
try:
    say('glibc', os.confstr('CS_GNU_LIBC_VERSION').split()[1])
except (ValueError, OSError, AttributeError, IndexError):
    pass
sealed = False
try:
    with open(os.path.join(sys.prefix, 'pyvenv.cfg'), encoding='utf-8', errors='replace') as config:
        sealed = not any(line.replace(' ', '').strip().lower() == 'include-system-site-packages=true' for line in config)
except OSError:
    pass
if not sealed and not os.environ.get('PYTHONNOUSERSITE') and os.path.isdir(site.getusersitepackages()):
    site.addsitedir(site.getusersitepackages())
own = os.path.dirname(os.__file__)
for path in [p for p in os.environ.get('PYTHONPATH', '').split(':') if os.path.isabs(p)] + sys.path:
    if os.path.isdir(path) and path not in (own, os.path.join(own, 'lib-dynload')):
        say('path', path)
from importlib.util import find_spec
for name in sys.argv[2:]:
    try:
        places = find_spec(name).submodule_search_locations
    except Exception:
        continue
    for place in places or ():
        say('package:' + name, place)
answer = b''.join(out)
while answer:
    answer = answer[os.write(int(sys.argv[1]), answer):]
