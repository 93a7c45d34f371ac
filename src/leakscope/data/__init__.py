"""Records to audit: built-in and published datasets by name, and the user's own files.

A dataset is a function that returns `Records`. `load("adult")` reads a registered one;
`read_table("patients.csv", label="outcome")` reads a table of your own. Nothing here needs torch.
"""

from leakscope.data.files import read_table
from leakscope.data.registry import dataset_names, load

__all__ = ["dataset_names", "load", "read_table"]
