"""The table of a file as estimators get it: a DataFrame of pandas where pandas is installed, else of polars.

Pipelines are mostly written for pandas, and some libraries take tables of polars only with further packages.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import polars as pl


def delivered(table: pl.DataFrame) -> Any:
    """The table in the package that the user most likely wrote an estimator for."""
    if find_spec("pandas") is None:
        return table.clone()
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    return pd.DataFrame({series.name: _pandas_column(series) for series in table})


def _pandas_column(series: pl.Series) -> Any:
    """What `pandas.read_csv` makes of it: NaN where a number or a text is missing."""
    import pandas as pd
    import polars as pl

    if isinstance(series.dtype, pl.Enum):
        return pd.Categorical(series.to_list(), categories=series.dtype.categories.to_list())
    if isinstance(series.dtype, (pl.Date, pl.Datetime)):
        return series.cast(pl.Datetime("us")).to_numpy()
    if isinstance(series.dtype, pl.Decimal):
        return series.cast(pl.Float64).to_numpy()
    if series.dtype.is_numeric() or (isinstance(series.dtype, pl.Boolean) and not series.null_count()):
        return series.to_numpy()
    return pd.Series([np.nan if value is None else value for value in series.to_list()])
