"""What an audit costs and what it can resolve, before anything is trained.

Time comes from a short trial of the real recipe, memory and disk from shapes, resolution from the design; the
formulas are in docs/plan.md. Nothing is written anywhere.
"""
