"""Imports what an audit would load on its way: for a process that forks, so that no child loads it again.

Nothing is computed, as threads would not survive a fork. With matplotlib here, an audit starts no second
process beside it.
"""

from __future__ import annotations

import matplotlib.figure  # noqa: F401
import plotly.offline  # noqa: F401
import polars  # noqa: F401
import sklearn.ensemble
import sklearn.model_selection  # noqa: F401
import torch

import leakscope.audits.extension
import leakscope.audits.token_previews
import leakscope.evaluate.hygiene.shift
import leakscope.evaluate.judge
import leakscope.runs.verification  # noqa: F401
from leakscope.attacks.registry import attack_classes
from leakscope.audits import run
from leakscope.audits.report import page
from leakscope.bank.identity import Identity
from leakscope.bank.manifest import BlockNotes, Manifest
from leakscope.bank.run_folder import adapter
from leakscope.evaluate.results import AuditResults

torch.set_num_threads(1)
attack_classes()
for kind in (AuditResults, BlockNotes, Identity, Manifest):
    adapter(kind)


def write_no_pages() -> None:
    """Of audits: what is written from the results is not at stake, nor is the script that pages hold."""
    page.write_report = lambda *_: None  # type: ignore[assignment]
    run.pack_plotly = lambda: None  # type: ignore[assignment, return-value]
