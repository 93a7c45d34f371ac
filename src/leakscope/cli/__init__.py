"""The command line: `main.py` registers the commands of the other files."""
