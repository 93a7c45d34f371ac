"""What fine-tuned language models reveal about their documents: adapters, full fine-tuning, DP-LoRA.

    python benchmarks/text_study.py corpus --site SITE-PACKAGES --corpus FOLDER
    python benchmarks/text_study.py train --corpus FOLDER --out FOLDER --seconds 560
    python benchmarks/text_study.py judge --corpus FOLDER --home FOLDER
    python benchmarks/text_study.py page

`corpus` collects the documentation of installed packages, divides packages into public and private ones and
trains a tokenizer on the public part. `train` pretrains a base on the public part, chooses learning rates by
pilots, and fine-tunes six populations on random halves of the private documents: adapters of rank 8 (32
models), 1 and 64, full fine-tuning, and DP-LoRA at epsilon 8 and 1 (16 models each), evaluated after epochs
1 to 4 and 8. It ends when its seconds are over, with status 3 if something is left; the same command
resumes.
What judging needs is then in OUT/home. `judge` runs the attacks and writes docs/results/text/text.json, and
`page`, the default, writes docs/text_study.md and its picture from that file alone.

`--tiny` makes everything small enough for a CPU: it tests the script and says nothing about leakage.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from text_study_corpus import make_corpus, read_corpus

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "text" / "text.json"
PAGE = Path(__file__).parents[1] / "docs" / "text_study.md"
UNFINISHED = 3
N_RECORDS, LENGTH, VOCABULARY = 4_000, 128, 8_192
TINY_RECORDS, TINY_LENGTH, TINY_VOCABULARY = 64, 32, 512


def corpus(options: argparse.Namespace) -> None:
    """Collects the documents."""
    sizes = (TINY_RECORDS, TINY_LENGTH, TINY_VOCABULARY) if options.tiny else (N_RECORDS, LENGTH, VOCABULARY)
    make_corpus(options.site, options.corpus, *sizes)


def train(options: argparse.Namespace) -> None:
    """Pretrains the base and trains the populations."""
    import text_study_models as models
    from text_study_base import Shape, train_base

    clock, given = models.Clock.of(options.seconds), read_corpus(options.corpus)
    shape = Shape(layers=2, width=64, length=TINY_LENGTH, batch=16, passes=1) if options.tiny else Shape()
    study = models.Study(
        given, options.out, options.device, models.TINY if options.tiny else models.FULL_SIZE
    )
    train_base(given, study.base, shape, options.device, options.base_seconds)
    try:
        models.train_populations(study, clock, options.population)
    except models.TimeOverError:
        print("the time is over; the same command resumes", flush=True)
        sys.exit(UNFINISHED)


def judge(options: argparse.Namespace) -> None:
    """Attacks the populations."""
    from text_study_judge import judge_home

    judge_home(options.home, options.corpus, options.results, options.targets)


def page(options: argparse.Namespace) -> None:
    """Writes the page."""
    from text_study_page import write_page

    write_page(options.results, options.page)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    stages = {"corpus": corpus, "train": train, "judge": judge, "page": page}
    arguments.add_argument("stage", choices=stages, nargs="?", default="page")
    arguments.add_argument("--site", type=Path, help="site-packages folder whose packages are collected")
    arguments.add_argument("--corpus", type=Path, default=Path("runs/text_study/corpus"))
    arguments.add_argument("--out", type=Path, default=Path("runs/text_study"))
    arguments.add_argument("--home", type=Path, default=Path("runs/text_study/home"))
    arguments.add_argument("--results", type=Path, default=RESULTS)
    arguments.add_argument("--page", type=Path, default=PAGE)
    arguments.add_argument("--device", default="cuda")
    arguments.add_argument("--seconds", type=float, default=3600.0, help="after which `train` ends")
    arguments.add_argument("--base-seconds", type=float, default=180.0, help="of pretraining, at most")
    arguments.add_argument("--population", action="append", help="train this one only; may be repeated")
    arguments.add_argument("--targets", type=int, default=16, help="attacked models of each population")
    arguments.add_argument("--tiny", action="store_true", help="small enough for a CPU")
    options = arguments.parse_args()
    if options.stage == "corpus" and (options.site is None or not options.site.is_dir()):
        arguments.error("corpus needs --site, a site-packages folder")
    stages[options.stage](options)


if __name__ == "__main__":
    main()
