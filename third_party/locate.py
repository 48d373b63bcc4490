"""Print the directory of a file of an installed package: `locate.py PACKAGE FILE`.

No fixed prefix is right under pip's build isolation, uv and editable installs alike; the package's
own file list is.
"""

import sys
from importlib.metadata import PackageNotFoundError, files

package, name = sys.argv[1:]
try:
    found = [path for path in files(package) or [] if path.name == name]
except PackageNotFoundError:
    found = []
if not found:
    sys.exit(f"{package} is not installed for {sys.executable}")
print(found[0].locate().resolve().parent.as_posix())
