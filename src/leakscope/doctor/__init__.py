"""What is installed and what is missing: `leakscope doctor`.

Only Python itself is needed here. Every other package may be missing or broken, which is what this is to find
out; `python -m leakscope.doctor` works where the command `leakscope` does not start.
"""
