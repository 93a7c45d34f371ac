"""The defences by name, and defences as text: "weight_decay", "weight_decay(rate=0.1)"."""

from __future__ import annotations

from leakscope.defences.base import Defence
from leakscope.defences.deduplication import Deduplication
from leakscope.defences.dp_sgd import DpSgd
from leakscope.defences.dropout import Dropout
from leakscope.defences.early_stopping import EarlyStopping
from leakscope.defences.fewer_rounds import FewerRounds
from leakscope.defences.hamp import Hamp
from leakscope.defences.label_smoothing import LabelSmoothing
from leakscope.defences.leaf_size import LeafSize
from leakscope.defences.leakage_penalty import LeakagePenalty
from leakscope.defences.mixup import Mixup
from leakscope.defences.penalty import Penalty
from leakscope.defences.pruning import Pruning
from leakscope.defences.relax_loss import RelaxLoss
from leakscope.defences.rounding import Rounding
from leakscope.defences.sam import Sam
from leakscope.defences.selena import Selena
from leakscope.defences.targeted import Targeted
from leakscope.defences.temperature import Temperature
from leakscope.defences.top_1 import TopOne
from leakscope.defences.tree_depth import TreeDepth
from leakscope.defences.weight_decay import WeightDecay
from leakscope.errors import InputError, choose_from
from leakscope.options import accepted_values, read_call

_SHIPPED: tuple[type[Defence], ...] = (
    WeightDecay,
    Dropout,
    EarlyStopping,
    LabelSmoothing,
    Mixup,
    Sam,
    RelaxLoss,
    Hamp,
    Selena,
    Targeted,
    DpSgd,
    Deduplication,
    Temperature,
    Rounding,
    TopOne,
    LeafSize,
    TreeDepth,
    Pruning,
    Penalty,
    LeakagePenalty,
    FewerRounds,
)


def defence_classes() -> dict[str, type[Defence]]:
    """Every defence by name."""
    return {defence.name: defence for defence in _SHIPPED}


def resolve_defence(spec: str | Defence) -> Defence:
    """The defence a user means: an object, a name, or text with options.

    Raises:
        InputError: there is no such defence or option, or the option does not accept the value.
    """
    if isinstance(spec, Defence):
        return spec
    try:
        name, options = read_call(spec)
    except ValueError as error:
        raise InputError(f"defence={spec!r}: {error}") from error
    known = defence_classes()
    if name not in known:
        raise InputError(f"defence={name!r} is unknown; {choose_from(name, sorted(known))}")
    takes = accepted_values(known[name])
    unknown = sorted(set(options) - set(takes))
    if unknown:
        raise InputError(
            f"defence={name!r}: unknown option {', '.join(unknown)}; it takes {', '.join(sorted(takes))}"
        )
    return known[name](**options)


def strengths_of(name: str) -> tuple[Defence, ...]:
    """The settings of a defence that comparisons try, from weak to strong."""
    cls = defence_classes()[name]
    return tuple(cls(**options) for options in cls.strengths)
