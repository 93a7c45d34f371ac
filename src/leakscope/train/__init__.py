"""Training: one loop (`loop.py`) over three ways to get gradients.

`dense.py` many plain perceptrons by batched matrix products, `stacked.py` many models of any
architecture by `torch.func.vmap`, `serial.py` one large model by autograd. `estimators.py` fits
scikit-learn models in worker processes.
"""
