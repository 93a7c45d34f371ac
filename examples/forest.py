"""A random forest on handwritten digits: python examples/forest.py"""

from sklearn.ensemble import RandomForestClassifier

import leakscope

forest = leakscope.EstimatorRecipe(RandomForestClassifier(n_estimators=50))
gate = leakscope.Gate(max_auc=0.9)  # in a pipeline: exit code 1 when the forest reveals more
verdict = leakscope.audit(leakscope.load("digits"), forest, out="runs/forest", models=16, gate=gate)
print(verdict)
raise SystemExit(verdict.exit_code)
