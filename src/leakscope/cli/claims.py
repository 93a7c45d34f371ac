"""`--claims FOLDER` of the studies: the page of a publication's claims, from results that exist."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leakscope.cli.output import console, print_lines

if TYPE_CHECKING:
    from leakscope.studies.claims import StudyClaims

Claims = Annotated[
    Path | None,
    typer.Option(
        help="Run nothing: judge the publication's claims by the results files (*.json) in this folder, and "
        "write FOLDER.md.",
        show_default=False,
    ),
]


def write_claims(publication: StudyClaims[Any], folder: Path, quiet: bool) -> None:
    """Writes the page and prints how many claims there are of each verdict."""
    page = publication.write_page(folder)
    if not quiet:
        print_lines(console(), [publication.counted(folder), f"Wrote {page}"])
