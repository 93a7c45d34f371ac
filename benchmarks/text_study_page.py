"""docs/text_study.md and its picture, from the results of the text study alone."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from leakscope.studies.claims import MEANINGS, counted
from page_parts import table, wrapped
from text_study_claims import Results, best_epoch, label, last_epoch, settle, signed
from text_study_findings import findings

IMAGE = "images/text_study.png"
ATTACKS = (
    "loss", "zlib", "min_k", "min_k_plus_plus", "base_model", "ez_mia", "rmia offline", "rmia", "lira",
    "bavaria", "bavaria on base_gap", "eb_lira",
)  # fmt: skip
FIGURES = {"auc": "AUC", "tpr_1": "TPR at 1% FPR", "tpr_01": "TPR at 0.1% FPR"}


def write_page(file: Path, page: Path) -> None:
    """The page and its picture."""
    results: Results = _with_nan(json.loads(file.read_text()))
    page.write_text(page_of(results))
    (page.parent / IMAGE).parent.mkdir(parents=True, exist_ok=True)
    draw(results, page.parent / IMAGE)
    print(f"wrote {page}")


def page_of(results: Results) -> str:
    """The text of the page."""
    sections = [
        _head(results), _findings(results), _claims(results), _setting(results), _references(results),
        _populations(results), _against_full(results), _private(results), _blind(results), _method(results),
    ]  # fmt: skip
    return "\n\n".join(section for section in sections if section) + "\n"


def _with_nan(value: Any) -> Any:
    """Undefined numbers, null in JSON, as NaN again; they stand in lists."""
    if isinstance(value, dict):
        return {key: _with_nan(own) for key, own in value.items()}
    if isinstance(value, list):
        return [math.nan if own is None else _with_nan(own) for own in value]
    return value


def _rows(results: Results, name: str) -> list[Results]:
    """A population by epoch."""
    return [row for row in results["populations"] if row["population"] == name]


def _names(results: Results) -> list[str]:
    order = ("lora-1", "lora-8", "lora-64", "full", "dp-8", "dp-1")
    known = {row["population"] for row in results["populations"]}
    return [name for name in order if name in known]


def _cell(figure: list[float], is_rate: bool = False) -> str:
    value, low, high = (100 * v if is_rate else v for v in figure)
    if math.isnan(value):
        return "undefined"
    if is_rate:
        return f"{value:.2f}% ({low:.2f} to {high:.2f})"
    return f"{value:.3f} ({low:.3f} to {high:.3f})"


def _head(results: Results) -> str:
    return f"""# What fine-tuned language models reveal: a study

{wrapped(_ABOUT)}

```
python benchmarks/text_study.py page
```

writes this page from `docs/results/text/text.json`; [the other commands](#rerun-the-study) make that file."""


_ABOUT = """
This study measures what fine-tuning reveals about the documents it uses: by attack, number of reference
models, rank of the adapters and epoch, under full fine-tuning and with differential privacy. It then asks
which published claims hold in this setting. The base, the documents and all models are made by one script.
"""


def _findings(results: Results) -> str:
    return "## Findings\n\n" + "\n".join(_item(text) for text in findings(results))


def _item(text: str) -> str:
    """An entry of a list."""
    return f"- {wrapped(text).replace(chr(10), chr(10) + '  ')}"


def _claims(results: Results) -> str:
    settled = settle(results)
    rows = []
    for one in settled:
        verdict = f"**{one.outcome}**" + (f": {one.why}" if one.why else "")
        rows.append(
            [one.claim.statement, one.claim.published, one.ours, one.claim.protocol, one.protocol, verdict]
        )
    head = ("claim", "published", "ours (95% interval)", "protocol, published", "protocol, ours", "verdict")
    lines = [head, ["---"] * len(head), *rows]
    used = {one.outcome for one in settled}
    meanings = "\n".join(f"- **{outcome}**: {text}." for outcome, text in MEANINGS.items() if outcome in used)
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"## Published claims\n\n{counted(settled)}\n\n{body}\n\n{meanings}\n\n{wrapped(_DIFFERENT)}"


_DIFFERENT = """
None of these verdicts says that a publication is wrong about its own setting: models there are larger, and
their bases have seen far more text. `benchmarks/text_study_claims.py` has the rule for each verdict. The
rules were written before the models were trained, with four changes when the results were known, which the
file names. Two rows beginning with "The same" were added. Equal quality is defined differently, and its
verdict requires that AUC and TPR agree: by the AUC alone it would be "refuted".
"""


def _setting(results: Results) -> str:
    corpus, base, rates = results["corpus"], results["base"], results["rates"]
    main = next(one for one in results["trained"] if one["name"] == "lora-8")
    chosen = ", ".join(
        f"{own['rate']:g} for {name}"
        for name, own in zip(("LoRA", "full fine-tuning", "DP-LoRA"), rates.values(), strict=True)
    )
    n_shared = results["shared_models"]
    lines = [
        f"**Documents.** Docstrings and documentation files of Python packages. {corpus['records']:,} "
        f"documents of {corpus['private_packages']} packages are the records, cut at {corpus['length']} "
        f"tokens. The base is trained on {base['public_tokens']:,} tokens of {corpus['public_packages'] - 1} "
        "other packages and of the standard library. Near copies are left out, also between the two parts.",
        f"**Base.** A model of GPT-2's shape: {base['layers']} layers, {base['width']} wide, "
        f"{base['parameters'] / 1e6:.1f} million parameters, a vocabulary of {base['vocabulary']:,} tokens, "
        f"trained on {base['trained_tokens'] / 1e6:.0f} million tokens. Its perplexity is "
        f"{math.exp(base['held_out_loss']):.1f} on held-out public text (a unigram model has "
        f"{math.exp(base['unigram_loss']):.0f}) and {math.exp(base['private_loss']):.1f} on the private "
        "documents, before fine-tuning.",
        "**Fine-tunes.** Every document is in the training set of a model by a coin flip. "
        f"{main['halves'] * n_shared} models with adapters of rank 8 are the main population. The others "
        f"have {n_shared} models, with the same memberships as the first {n_shared} of the main one. AdamW "
        f"with a constant learning rate, batches of 8 documents, {last_epoch(results)} epochs. DP-LoRA has "
        "batches of 250 documents on average.",
        "**Learning rates.** Two pilot models at each of three or four rates; the rate with the lowest loss "
        f"on non-members at any epoch is used: {chosen}.{_at_an_end(rates)} All ranks have the rate of rank "
        "8, and alpha is twice the rank.",
        "**Validation loss** is the mean loss on non-members.",
    ]
    return "## Setting\n\n" + "\n".join(
        f"- {wrapped(line).replace(chr(10), chr(10) + '  ')}" for line in lines
    )


def _at_an_end(rates: Results) -> str:
    """Says where a chosen rate is the lowest or the highest that was tried."""
    labels = {"lora": "LoRA", "full": "full fine-tuning", "dp": "DP-LoRA"}
    ends = []
    for family, own in rates.items():
        tried = sorted(float(rate) for rate in own["losses"])
        if tried and own["rate"] in (tried[0], tried[-1]):
            ends.append(
                f"the {'lowest' if own['rate'] == tried[0] else 'highest'} tried for {labels[family]}"
            )
    return f" This is {' and '.join(ends)}, so a rate beyond it may be better." if ends else ""


def _references(results: Results) -> str:
    rows = results["references"]
    parts = ["## Attacks and reference models", wrapped(_REFERENCES_ABOUT)]
    for epoch in sorted({row["epoch"] for row in rows}):
        best = best_epoch(results, "lora-8")
        when = "the lowest validation loss" if epoch == best else "the end"
        parts.append(f"### LoRA, rank 8, epoch {epoch}: {when}")
        for key, title in FIGURES.items():
            parts.append(f"{title}:")
            parts.append(_reference_table([row for row in rows if row["epoch"] == epoch], key))
    return "\n\n".join(parts)


_REFERENCES_ABOUT = """
`loss`, `zlib`, `min_k`, `min_k_plus_plus`, `base_model` and `ez_mia` use no reference models that somebody
has to train. The others read `log_odds` of models trained with and without the document; `rmia offline`
uses only those without. RMIA has `gamma=1`, and `offline_a=1` offline. `bavaria` also reads `base_gap`, on
which it needs fewer references.
"""


def _reference_table(rows: list[Results], key: str) -> str:
    sizes = sorted({row["references"] for row in rows})
    known = {(row["attack"], row["references"]): row[key] for row in rows}
    is_rate = key != "auc"
    lines = []
    for attack in ATTACKS:
        cells = [_cell(known[attack, size], is_rate) if (attack, size) in known else "" for size in sizes]
        lines.append([f"`{attack}`", *cells])
    return table(["references", *map(str, sizes)], lines)


def _populations(results: Results) -> str:
    rows = []
    for name in _names(results):
        for row in _rows(results, name):
            attacks = row["attacks"]
            rows.append([
                label(name), str(row["epoch"]), f"{row['validation_loss']:.3f}", f"{row['member_loss']:.3f}",
                _cell(attacks["eb_lira"]["auc"]), _cell(attacks["eb_lira"]["tpr_1"], True),
                _cell(attacks["eb_lira"]["tpr_01"], True), _cell(attacks["ez_mia"]["auc"]),
                _cell(attacks["min_k_plus_plus"]["auc"]), _cell(attacks["base_model"]["auc"]),
            ])  # fmt: skip
    head = (
        "models", "epoch", "validation loss", "loss on members", "AUC of EB-LiRA", "TPR at 1%",
        "TPR at 0.1%", "AUC of EZ-MIA", "AUC of min-k%++", "AUC of base_model",
    )  # fmt: skip
    n_shared = results["shared_models"]
    about = f"""{n_shared} models each, EB-LiRA with the {n_shared - 1} others as references. The base has a
    validation loss of {results["base"]["private_loss"]:.3f}."""
    picture = f"![Leakage against validation loss, for ranks, full fine-tuning and DP-LoRA]({IMAGE})"
    return f"## Ranks, epochs and full fine-tuning\n\n{wrapped(about)}\n\n{picture}\n\n{table(head, rows)}"


def _against_full(results: Results) -> str:
    names = {name for name in _names(results) if name.startswith("lora")}
    between_epochs = {f"epoch {epoch}" for epoch in range(2, last_epoch(results))}
    rows = [
        [
            label(row["population"]), row["attack"], row["when"], f"{row['own'][0]:.3f}",
            f"{row['full'][0]:.3f}", signed(row["auc"]), signed(row["tpr_1"], 100),
            signed(row["tpr_01"], 100),
        ]
        for row in results["between_populations"]
        if row["population"] in names and row["when"] not in between_epochs
    ]  # fmt: skip
    if not rows:
        return ""
    head = (
        "models", "attack", "compared", "AUC", "AUC, full fine-tuning", "difference", "TPR at 1%, points",
        "TPR at 0.1%, points",
    )  # fmt: skip
    return f"## LoRA minus full fine-tuning\n\n{wrapped(_EQUAL_LOSS)}\n\n{table(head, rows)}"


_EQUAL_LOSS = """
After as many epochs, adapters and full fine-tuning have not learned equally much. So LoRA at its lowest
validation loss is also compared with full fine-tuning at its own lowest, and with the first checkpoint of
full fine-tuning that has a validation loss as low as LoRA's. Here this is the first epoch, which is already
better.
"""


def _private(results: Results) -> str:
    lines, last = [], last_epoch(results)
    for one in results["trained"]:
        if one["epsilon"] is None:
            continue
        spent, rows = one["privacy_spent"], _rows(results, one["name"])
        end = next(row for row in rows if row["epoch"] == last)
        own = end["attacks"]["eb_lira"]
        plain = next(row for row in _rows(results, "lora-8") if row["epoch"] == best_epoch(results, "lora-8"))
        lines.append(wrapped(
            f"**Epsilon {spent['epsilon']:.2g}** (delta {spent['delta']:g}, noise multiplier "
            f"{spent['noise_multiplier']:.2f}, {spent['steps']} steps): AUC of EB-LiRA "
            f"{_cell(own['auc'])}, TPR at 0.1% FPR {_cell(own['tpr_01'], True)}; validation loss "
            f"{end['validation_loss']:.3f}, against {plain['validation_loss']:.3f} without privacy at its "
            f"best epoch and {results['base']['private_loss']:.3f} of the base."
        ))  # fmt: skip
    return "## DP-LoRA\n\n" + "\n\n".join(lines) if lines else ""


def _blind(results: Results) -> str:
    (mean, low, high, largest), fresh = results["blind"]["models"], results["blind"]["fresh"]
    text = f"""A regression on the words of a document, which sees no model, has a mean AUC of {mean:.3f}
    ({low:.3f} to {high:.3f}) over the memberships of the main population, at most {largest:.3f}. Memberships
    that are drawn afresh, and that no model was trained on, give {fresh[0]:.3f} ({fresh[1]:.3f} to
    {fresh[2]:.3f}), at most {fresh[3]:.3f}: words say nothing about who is a member. What the attacks measure
    comes from the models."""
    return f"## Without any model\n\n{wrapped(text)}"


def _method(results: Results) -> str:
    return f"""## Intervals

{wrapped(_INTERVALS)}

## Rerun the study

```
python benchmarks/text_study.py corpus --site SITE-PACKAGES --corpus runs/text_study/corpus
python benchmarks/text_study.py train --corpus runs/text_study/corpus --out runs/text_study
python benchmarks/text_study.py judge --corpus runs/text_study/corpus --home runs/text_study/home
python benchmarks/text_study.py page
```

{wrapped(_RERUN.format(minutes=sum(one["seconds"] for one in results["trained"]) / 60))}

## Limits

{wrapped(_LIMITS)}"""


_INTERVALS = """
Figures with all other models as references have 95% intervals for records like these, as in an audit
([coverage](coverage.md)). With fewer references, intervals are t intervals over 16 targets, each with
references of its own; they describe these records. Differences have jackknife intervals over models, left
out in both at once. Epochs with the lowest validation loss are chosen on the models that are attacked, and
intervals do not account for that choice.
"""
_RERUN = """
`train` needs a GPU: the populations took {minutes:.0f} minutes on one H200, pretraining and pilots not
counted. It resumes where it was stopped. The documents depend on which packages are installed, so another
machine gets other documents, and figures that differ somewhat.
"""
_LIMITS = """
The base is small and has seen little text; documents are short, technical and partly alike. Every document
is trained on once per epoch. There is one base, one seed for the populations and one split of the packages.
Larger models can order attacks and methods of fine-tuning in another way.
"""


def draw(results: Results, file: Path) -> None:
    """TPR of EB-LiRA at 0.1% FPR against validation loss, a line per population."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 4.8), layout="constrained")
    axes = figure.subplots()
    for name, marker in zip(_names(results), "osD^vX", strict=False):
        rows = _rows(results, name)
        loss = [row["validation_loss"] for row in rows]
        tpr = [[100 * v for v in row["attacks"]["eb_lira"]["tpr_01"]] for row in rows]
        errors = [[v - low for v, low, _ in tpr], [high - v for v, _, high in tpr]]
        axes.errorbar(loss, [v for v, _, _ in tpr], yerr=errors, marker=marker, capsize=2, label=label(name))
        for row, own, value in zip(rows, loss, tpr, strict=True):
            axes.annotate(str(row["epoch"]), (own, value[0]), (5, -9), textcoords="offset points", fontsize=7)
    axes.axvline(results["base"]["private_loss"], color="gray", linestyle=":", label="loss of the base")
    axes.axhline(0.1, color="gray", linestyle="--", linewidth=0.8, label="guessing")
    axes.set_yscale("log")
    axes.set_xlabel("validation loss (mean loss on non-members); numbers are epochs")
    axes.set_ylabel("TPR of EB-LiRA at 0.1% FPR, in percent")
    axes.legend(fontsize=8)
    figure.savefig(file, dpi=110, metadata={"Software": None})
