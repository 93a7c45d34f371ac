"""An audit from Python: python examples/quickstart.py"""

import leakscope

records = leakscope.load("digits")
recipe = leakscope.Recipe(net="mlp", net_options=(("width", 64),), epochs=30, lr=0.003)
verdict = leakscope.audit(records, recipe, out="runs/quickstart", models=32)
print(verdict)
