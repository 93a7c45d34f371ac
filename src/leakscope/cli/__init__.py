"""The command line: `main.py` registers, one command a file."""
