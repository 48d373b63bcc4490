"""Print the directory of dnnl-config.cmake.

No fixed prefix is right under pip's build isolation, uv and editable installs alike; the package's
own file list is.
"""

import sys
from importlib.metadata import PackageNotFoundError, files

PACKAGE = "onednn-devel-cpu-gomp"

try:
    found = [path for path in files(PACKAGE) or [] if path.name == "dnnl-config.cmake"]
except PackageNotFoundError:
    found = []
if not found:
    sys.exit(f"{PACKAGE} is not installed for {sys.executable}")
print(found[0].locate().resolve().parent.as_posix())
