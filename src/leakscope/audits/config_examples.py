"""One example for each table of a config file, for the reference and the schema; tests read all of them."""

from __future__ import annotations

EXAMPLES = {
    "data": """\
[data]
file = "people.csv"
label = "outcome"
id = "person"
groups = ["region"]
""",
    "model": """\
[model]
estimator = "sklearn.ensemble:RandomForestClassifier"
options = { n_estimators = 100, min_samples_leaf = 5 }
""",
    "model.lora": """\
[model]
base = "models/gpt2"

[model.lora]
rank = 8
alpha = 16
targets = ["c_attn", "c_proj", "c_fc"]
""",
    "training": """\
[training]
optimizer = "sgd"
lr = 0.1
momentum = 0.9
schedule = "cosine"
weight_decay = 5e-4
batch_size = 128
epochs = 40
""",
    "training.privacy": """\
[training.privacy]
epsilon = 8
delta = 1e-5
clip = 1.0
""",
    "training.treatment": """\
[training.treatment]
how = "leave_out"
choice = "early"
share = 0.05
""",
    "training.distillation": """\
[training.distillation]
models = 5
left_out = 2
""",
    "population": """\
[population]
models = 64
seed = 1
device = "cpu"
""",
    "attacks": """\
[attacks]
names = ["eb_lira", "lira(online=false)", { name = "rmia", gamma = 2.0 }]
fpr = [0.01, 0.001]
""",
    "gate": """\
[gate]
max_auc = 0.6
max_tpr = [{ fpr = 0.01, tpr = 0.05 }]
""",
    "target": """\
[data]
file = "people.csv"
label = "outcome"
id = "person"

[target]
weights = "model.safetensors"
members = "members.csv"
""",
    "predictions": """\
[predictions]
file = "scores.csv"
label = "churn"
member = "in_train"
prob = ["p_stayed", "p_churned"]
classes = ["stayed", "churned"]
""",
    "outputs": """\
[outputs]
digits = 2
""",
    "canaries": """\
[canaries]
kind = "mislabelled"
number = 50
""",
    "claim": """\
[claim]
epsilon = 8
delta = 1e-5
""",
}
