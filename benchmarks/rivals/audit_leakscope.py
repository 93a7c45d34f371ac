"""The audit by leakscope, with everything it does by default: attacks, intervals, hygiene, HTML report."""

from __future__ import annotations

from rivals.reporting import Audit

audit = Audit()
problem, size = audit.problem, audit.problem.size

# user code begins
import numpy as np  # noqa: E402
import polars as pl  # noqa: E402

import leakscope  # noqa: E402

audit.phase_done("import")  # torch is imported when training begins
ids, classes = np.arange(size.n_records).astype(str), tuple(map(str, range(problem.n_classes)))
records = leakscope.Records(problem.features, problem.labels, ids, size.dataset, class_names=classes)
recipe = leakscope.Recipe(
    net="mlp",
    net_options=(("width", size.width), ("depth", size.depth)),
    optimizer="adam",
    lr=size.lr,
    batch_size=size.batch_size,
    epochs=size.epochs,
)
weights = leakscope.NetWeights(problem.folder / "target.pt", "mlp", dict(recipe.net_options))
target = leakscope.GivenTarget(records, weights, problem.is_member, recipe)
verdict = leakscope.audit(target, out=problem.folder / "leakscope", models=size.n_shadows)
scores = pl.read_parquet(verdict.folder / "records.parquet")["score_eb_lira"].to_numpy()
# user code ends

audit.finish(scores)
