"""leakscope in the tools that people already use: experiment trackers, trainers, model cards.

Each library is optional, and imported only by the functions that need it.
"""
