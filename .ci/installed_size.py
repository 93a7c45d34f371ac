"""Prints what an environment takes: `python .ci/installed_size.py ENVIRONMENT`; see docs/install.md."""

from __future__ import annotations

import sys
from pathlib import Path


def megabytes(environment: Path) -> tuple[float, float]:
    """Packages alone, without pip and bytecode; and all files of the environment."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    files = [file for file in environment.rglob("*") if file.is_file() and not file.is_symlink()]
    ours = [file for file in files if packages in file.parents and file.suffix != ".pyc"]
    tools = ("pip", "setuptools", "pkg_resources", "_distutils_hack")  # venv's own
    counted = [file for file in ours if not file.relative_to(packages).parts[0].startswith(tools)]
    return sum(f.stat().st_size for f in counted) / 1e6, sum(f.stat().st_size for f in files) / 1e6


if __name__ == "__main__":
    print("{:,.0f} MB of packages, {:,.0f} MB with bytecode and pip".format(*megabytes(Path(sys.argv[1]))))
