"""The gauge of a page: a figure with its interval on a scale, and its limit."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from leakscope.report.templates import template

_WIDTH, _LEFT, _RIGHT = 640.0, 32.0, 32.0


@dataclass(frozen=True)
class Gauge:
    """A figure on a scale.

    Attributes:
        label: name of the figure.
        value: the figure; None where it cannot be measured.
        low: lower end of its interval, or None.
        high: upper end of its interval, or None.
        start: left end of the scale.
        end: right end of the scale.
        limit: the gate's limit; None without a gate.
        passed: whether the figure is within the limit; None without a gate.
        reference: a value to compare with, like that of guessing.
        reference_label: name of the reference.
        percent: whether numbers are rates in percent.
    """

    label: str
    value: float | None
    low: float | None
    high: float | None
    start: float
    end: float
    limit: float | None = None
    passed: bool | None = None
    reference: float | None = None
    reference_label: str = "guessing"
    percent: bool = False

    def shown(self, value: float) -> str:
        """A number on the scale as text."""
        if not self.percent:
            return f"{value:.3g}"
        digits = 1 if self.end - self.start < 0.1 else 0
        return f"{100 * value:.{digits}f}%"

    def html(self) -> Markup:
        """The gauge as inline SVG, with a text description."""
        ticks = [self.start + (self.end - self.start) * k / 5 for k in range(6)]
        scale = {"width": _WIDTH, "left": _LEFT, "right": _WIDTH - _RIGHT}
        words = self._description()
        return template("gauge.html.j2", gauge=self, at=self._place, words=words, ticks=ticks, **scale)

    def _place(self, value: float) -> str:
        """Position of a value in pixels; values outside the scale are clipped."""
        share = (value - self.start) / (self.end - self.start)
        return f"{_LEFT + min(max(share, 0.0), 1.0) * (_WIDTH - _LEFT - _RIGHT):.1f}"

    def _description(self) -> str:
        def precise(value: float) -> str:
            return f"{100 * value:.1f}%" if self.percent else f"{value:.3f}"

        text = f"{self.label}: {'not measurable' if self.value is None else precise(self.value)}"
        if self.low is not None and self.high is not None:
            text += f" (95% interval {precise(self.low)} to {precise(self.high)})"
        return text if self.limit is None else f"{text}; the limit is {precise(self.limit)}"
