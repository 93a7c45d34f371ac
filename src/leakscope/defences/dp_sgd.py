"""DP-SGD: clipped gradients and noise at every step, so that no record can change the model by much."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leakscope.adapter_recipe import AdapterRecipe
from leakscope.defences.base import Defence, why_no_network
from leakscope.errors import InputError
from leakscope.privacy.settings import Privacy
from leakscope.recipe import AnyRecipe, Recipe
from leakscope.types import Records


@dataclass(frozen=True)
class DpSgd(Defence):
    """Differentially private training.

    Noise is the same for a large batch as for a small one, so private training takes large batches and large
    steps: the recipe's batch size, optimizer and learning rate are replaced. `docs/privacy.md` has the
    measurements behind the defaults.

    Attributes:
        epsilon: what the training may spend for each record.
        delta: the probability that is excepted.
        clip: largest norm of one record's gradient.
        batch_size: expected size of a batch.
        lr: learning rate of Adam.
    """

    epsilon: float = 8.0
    delta: float = 1e-5
    clip: float = 1.0
    batch_size: int = 256
    lr: float = 0.02

    name = "dp_sgd"
    changes = "recipe"
    strengths = ({"epsilon": 50.0}, {"epsilon": 8.0}, {"epsilon": 1.0})
    source = "Abadi et al. 2016"

    def unmet(self, recipe: AnyRecipe, records: Records) -> str | None:
        """Only networks without batch norm have gradients of single records."""
        if not isinstance(recipe, Recipe):
            return why_no_network(recipe)
        try:
            self.recipe(recipe, records)
        except InputError as error:
            return str(error)
        return _why_not_the_network(recipe, records)

    def recipe(self, recipe: AnyRecipe, records: Records) -> AnyRecipe:
        """The recipe with DP-SGD."""
        assert isinstance(recipe, Recipe)
        privacy = Privacy(epsilon=self.epsilon, delta=self.delta, clip=self.clip)
        return replace(
            recipe,
            privacy=privacy,
            optimizer="adam",
            momentum=0.0,
            nesterov=False,
            lr=self.lr,
            batch_size=self.batch_size,
        )


def _why_not_the_network(recipe: Recipe, records: Records) -> str | None:
    if isinstance(recipe, AdapterRecipe):  # documents of a batch never meet; training checks that
        return None
    import torch

    from leakscope.models.registry import build
    from leakscope.train.row_by_row import BATCH_NORM, has_batch_norm

    with torch.random.fork_rng(devices=()):
        net = build(recipe, tuple(records.features.shape[1:]), records.n_classes)
    return BATCH_NORM if has_batch_norm(net) else None
