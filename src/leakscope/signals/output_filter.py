"""What a query returns of a model's outputs: everything by default, less where a defence hides some."""

from __future__ import annotations

import math
from dataclasses import dataclass

from leakscope.errors import InputError

MOST_DIGITS = 6
"""Single-precision probabilities have no more."""


@dataclass(frozen=True)
class OutputFilter:
    """What happens to the outputs of a classifier before anyone sees them, in this order.

    Attributes:
        temperature: what logits are divided by; above 1, probabilities are closer to each other.
        random_values: each query returns the probabilities of a random input, in the order of the classes of
            the model's own answer (HAMP, Chen and Pattabiraman 2024).
        digits: decimal digits that probabilities are rounded to; None: all.
        top_1: the predicted class, and nothing else.
    """

    temperature: float = 1.0
    random_values: bool = False
    digits: int | None = None
    top_1: bool = False

    def __post_init__(self) -> None:
        problems = []
        is_number = isinstance(self.temperature, int | float) and not isinstance(self.temperature, bool)
        if not is_number or not 0 < self.temperature < math.inf:
            problems.append(f"temperature={self.temperature!r}: must be a number above 0")
        if self.digits is not None and (type(self.digits) is not int or not 1 <= self.digits <= MOST_DIGITS):
            problems.append(f"digits={self.digits!r}: must be in 1..{MOST_DIGITS}")
        for name in ("random_values", "top_1"):
            if not isinstance(getattr(self, name), bool):
                problems.append(f"{name}={getattr(self, name)!r}: must be true or false")
        if problems:
            raise InputError("; ".join(problems))
        object.__setattr__(self, "temperature", float(self.temperature))  # 2 and 2.0 are one bank

    def __str__(self) -> str:
        if self.top_1:
            return "the predicted class alone"
        kinds = [f"at temperature {self.temperature:g}"] if self.temperature != 1 else []
        kinds += ["of random inputs, in the order of the classes"] if self.random_values else []
        digits = "1 digit" if self.digits == 1 else f"{self.digits} digits"
        kinds += [f"rounded to {digits}"] if self.digits is not None else []
        return f"probabilities {', '.join(kinds)}" if kinds else "logits or probabilities, unchanged"


NO_FILTER = OutputFilter()
"""Outputs as they are."""
