"""The demo of text finds the secrets that were planted; the same letters without them have none to find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("transformers")

from leakscope.audits.run import run_audit
from leakscope.audits.settings import AuditSettings
from leakscope.audits.text_demo import MODELS, text_demo


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of its own, so that the base is trained here, and once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEAKSCOPE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.slow
def test_planted_secrets_are_found(tmp_path: Path) -> None:
    verdict = run_audit(AuditSettings(models=MODELS), text_demo(), tmp_path / "run")
    text = verdict.results.text
    assert text is not None and text.secrets is not None
    exposure, first = text.secrets.exposure, text.secrets.ranked_first
    # Intervals, not values: models trained with a secret know it, and nobody else does.
    assert exposure.members.low is not None and exposure.nonmembers.high is not None
    assert exposure.members.low > exposure.nonmembers.high
    assert exposure.members.low > text.secrets.chance_bits
    for control in (exposure.nonmembers, exposure.base):
        assert control.low is not None and control.low <= text.secrets.chance_bits
    assert first.members.value is not None and first.nonmembers.value is not None
    assert first.members.value > 5 * first.nonmembers.value
    assert "planted secrets are the likeliest of 128 candidates" in str(verdict)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Planted secrets" in page and 'class="token t4"' in page


@pytest.mark.slow
def test_letters_without_secrets_have_none_to_find(tmp_path: Path) -> None:
    source = text_demo(n_secrets=0)
    assert source.records.is_canary is None and source.records.copies is None
    verdict = run_audit(AuditSettings(models=2, attacks=["loss"]), source, tmp_path / "run")
    assert verdict.results.text is not None and verdict.results.text.secrets is None
    assert "secret" not in str(verdict).lower()
