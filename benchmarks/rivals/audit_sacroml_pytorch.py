"""The audit by sacroml of a PyTorch target, as its examples do it; its PDF report is left out.

The option is its kind of LiRA: "offline", its default, or "online-carlini". A second kind finds the first
one's shadow models in the folder and uses them again, so only the first one's seconds are a whole audit's.
What it asks for besides, a module with the network's class and one with the training function, is in
net.py and train.py.
"""

from __future__ import annotations

from rivals.reporting import Audit

audit = Audit()
problem, size, is_member = audit.problem, audit.problem.size, audit.problem.is_member

# user code begins
import numpy as np  # noqa: E402
import torch  # noqa: E402
from sacroml.attacks.likelihood_attack import LIRAAttack  # noqa: E402
from sacroml.attacks.target import Target  # noqa: E402

from rivals.net import Net  # noqa: E402

audit.phase_done("import")
network = {
    "n_inputs": problem.features.shape[1],
    "n_classes": problem.n_classes,
    "width": size.width,
    "depth": size.depth,
}
model = Net(**network)
model.load_state_dict(torch.load(problem.folder / "target.pt"))
target = Target(
    model=model,
    model_module_path="rivals/net.py",
    model_params=network,
    train_module_path="rivals/train.py",
    train_params={"epochs": size.epochs, "lr": size.lr},
    batch_size=size.batch_size,
    X_train=problem.features[is_member],
    y_train=problem.labels[is_member],
    X_test=problem.features[~is_member],
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
