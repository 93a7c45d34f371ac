"""The audit by ART of a PyTorch target, as its notebook on shadow models does it.

Shadow models of the target's kind, then a classifier that tells members from what they say; the option is
that classifier: "lr", the fastest there is, or "rf", the notebook's. Shadow models are drawn from all
records, so that they see what the other tools' do. ART trains them with `fit`'s defaults (10 epochs, batches
of 128); the subclass gives them the target's recipe.
"""

from __future__ import annotations

from rivals.reporting import Audit

audit = Audit()
problem, size = audit.problem, audit.problem.size

# user code begins
import torch  # noqa: E402
from art.attacks.inference.membership_inference import MembershipInferenceBlackBox, ShadowModels  # noqa: E402
from art.estimators.classification import PyTorchClassifier  # noqa: E402
from art.utils import to_categorical  # noqa: E402
from torch import nn  # noqa: E402

from rivals.net import Net  # noqa: E402

audit.phase_done("import")


class Classifier(PyTorchClassifier):
    def fit(self, x, y, **_):
        super().fit(x, y, batch_size=size.batch_size, nb_epochs=size.epochs)


n_inputs = problem.features.shape[1]
model = Net(n_inputs, problem.n_classes, size.width, size.depth)
model.load_state_dict(torch.load(problem.folder / "target.pt"))
adam = torch.optim.Adam(model.parameters(), lr=size.lr, fused=True)
target = Classifier(model, nn.CrossEntropyLoss(), (n_inputs,), problem.n_classes, optimizer=adam)
one_hot = to_categorical(problem.labels, problem.n_classes)
shadows = ShadowModels(target, num_shadow_models=size.n_shadows, random_state=0)
(x_in, y_in, said_in), (x_out, y_out, said_out) = shadows.generate_shadow_dataset(problem.features, one_hot)
attack = MembershipInferenceBlackBox(target, attack_model_type=audit.option)
attack.fit(x_in, y_in, x_out, y_out, said_in, said_out)
scores = attack.infer(problem.features, one_hot, probabilities=True)[:, 0]
# user code ends

audit.finish(scores)
