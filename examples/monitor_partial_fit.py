"""Early warning with scikit-learn's partial_fit: python examples/monitor_partial_fit.py

Any estimator with `partial_fit` and `predict_proba` will do; one call is one epoch. 5% of the labels were
flipped on purpose: records that can only be memorized, which is what the monitor should detect.
"""

import numpy as np
from sklearn.neural_network import MLPClassifier

import leakscope

digits = leakscope.load("digits")
x, y = digits.features.reshape(len(digits), -1), digits.labels.copy()
flipped = np.random.default_rng(0).choice(len(y), len(y) // 20, replace=False)
y[flipped] = (y[flipped] + 1) % 10

model = MLPClassifier(hidden_layer_sizes=(64,), learning_rate_init=0.003, random_state=0)
monitor = leakscope.Monitor(n_records=len(y))
for epoch in range(1, 16):
    model.partial_fit(x, y, classes=np.arange(10))
    probability = model.predict_proba(x)[np.arange(len(y)), y]
    monitor.update(-np.log(np.maximum(probability, 1e-12)))
    if epoch in (1, 5, 15):
        share_flipped = np.isin(monitor.top(0.05), flipped).mean()
        print(f"epoch {epoch}: {share_flipped:.0%} of the top 5% have a flipped label (chance: 5%)")
print("look at these first:", ", ".join(digits.ids[monitor.top(0.003)]))
