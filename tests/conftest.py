"""Shared by all tests: thread counts, and where real datasets may be."""

import os

# Test processes run side by side; each gets one thread, so that they do not fight over the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")
