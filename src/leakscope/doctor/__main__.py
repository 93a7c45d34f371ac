"""`python -m leakscope.doctor`: for installations in which the command `leakscope` does not start."""

from __future__ import annotations

import sys

from leakscope.doctor.diagnosis import as_json, diagnose, lines
from leakscope.errors import ExitCode


def main() -> None:
    """Prints the diagnosis; `--json` prints it as JSON."""
    diagnosis = diagnose()
    print(as_json(diagnosis) if "--json" in sys.argv[1:] else "\n".join(lines(diagnosis)))
    sys.exit(ExitCode.RUN_FAILED if diagnosis.problems else ExitCode.SUCCESS)


if __name__ == "__main__":
    main()
