"""The audit by ART of a scikit-learn target, its fastest; the option is as in audit_art_pytorch.py."""

from __future__ import annotations

from rivals.reporting import Audit

audit = Audit()
problem, size = audit.problem, audit.problem.size

# user code begins
import joblib  # noqa: E402
from art.attacks.inference.membership_inference import MembershipInferenceBlackBox, ShadowModels  # noqa: E402
from art.estimators.classification.scikitlearn import ScikitlearnClassifier  # noqa: E402
from art.utils import to_categorical  # noqa: E402

audit.phase_done("import")
model = joblib.load(problem.folder / "target.joblib").set_params(
    random_state=None
)  # or all shadows start alike
target = ScikitlearnClassifier(model)
one_hot = to_categorical(problem.labels, problem.n_classes)
shadows = ShadowModels(target, num_shadow_models=size.n_shadows, random_state=0)
(x_in, y_in, said_in), (x_out, y_out, said_out) = shadows.generate_shadow_dataset(problem.features, one_hot)
attack = MembershipInferenceBlackBox(target, attack_model_type=audit.option)
attack.fit(x_in, y_in, x_out, y_out, said_in, said_out)
scores = attack.infer(problem.features, one_hot, probabilities=True)[:, 0]
# user code ends

audit.finish(scores)
