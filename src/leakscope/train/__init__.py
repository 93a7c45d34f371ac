"""Training: one loop (`loop.py`) over three ways to get gradients.

`dense.py` many plain perceptrons by batched matrix products (`compiled.py`: by compiled code), `stacked.py`
many models of any architecture by `torch.func.vmap`, `side_by_side.py` large models by autograd.
`black_box.py` fits scikit-learn models, and calls the user's own training function.
"""
