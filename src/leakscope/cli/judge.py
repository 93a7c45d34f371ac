"""`leakscope judge RUN --attacks ...`: ask a finished run another question, without training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leakscope.cli.output import AsJson, Attacks, FprBudgets, Quiet, Redact, WithMembership


def judge(
    run: Annotated[Path, typer.Argument(help="Run folder of an audit.")],
    attacks: Attacks = None,
    fpr: FprBudgets = None,
    redact: Redact = False,
    with_membership: WithMembership = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Attack the models of a finished audit again, with any attack its signals allow.

    Nothing is trained. Earlier results stay in the run folder beside the new ones.
    """
    from leakscope.audits.finished import FinishedRun
    from leakscope.audits.run import run_audit
    from leakscope.audits.settings import AuditSettings
    from leakscope.cli.audit import exit_by_gate, show
    from leakscope.cli.output import listed, rates
    from leakscope.disclosure import Disclosure

    settings = AuditSettings(
        attacks=listed(attacks), fpr=rates(fpr), disclosure=Disclosure(redact, with_membership)
    )
    verdict = run_audit(settings, FinishedRun(run), run)
    show(verdict, quiet, as_json)
    exit_by_gate(verdict, printed=not (quiet or as_json))
