"""The audit by sacroml of a scikit-learn target, its fastest; its PDF report is left out.

The option is as in audit_sacroml_pytorch.py.
"""

from __future__ import annotations

from rivals.reporting import Audit

audit = Audit()
problem, size, is_member = audit.problem, audit.problem.size, audit.problem.is_member

# user code begins
import joblib  # noqa: E402
import numpy as np  # noqa: E402
from sacroml.attacks.likelihood_attack import LIRAAttack  # noqa: E402
from sacroml.attacks.target import Target  # noqa: E402

audit.phase_done("import")
features = problem.features.astype(np.float64)  # float32 probabilities of exactly 1 make it fail at the end
target = Target(
    model=joblib.load(problem.folder / "target.joblib"),
    X_train=features[is_member],
    y_train=problem.labels[is_member],
    X_test=features[~is_member],
    y_test=problem.labels[~is_member],
)
attack = LIRAAttack(
    output_dir=str(problem.folder / "sacroml"),
    n_shadow_models=size.n_shadows,
    mode=audit.option,
    report_individual=True,
    write_report=False,
)
attack.attack(target)
members_first = np.array(attack.attack_metrics[0]["individual"]["member_prob"])
scores = np.empty(size.n_records)
scores[is_member], scores[~is_member] = np.split(members_first, [is_member.sum()])
# user code ends

audit.finish(scores)
