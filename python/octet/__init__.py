"""octet: operators for training in FP8. ``import octet.torch as ot`` has those for PyTorch."""

from octet._library import __version__, library_path, set_tuning_table, tuning_table

__all__ = ["__version__", "library_path", "set_tuning_table", "tuning_table"]
