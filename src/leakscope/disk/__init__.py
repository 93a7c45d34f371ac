"""Bytes on disk: arrays larger than memory, .npy and parquet files, atomic writes, locks."""
