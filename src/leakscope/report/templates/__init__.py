"""The jinja2 templates; every value is escaped unless it is markup of our own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

if TYPE_CHECKING:
    from jinja2 import Environment


def template(name: str, **values: Any) -> Markup:
    """Renders a template of this folder; an undefined name is an error."""
    return Markup(_environment().get_template(name).render(**values))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("leakscope.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
