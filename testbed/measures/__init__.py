"""Measures that many experiments need: rates and fairness, frames at ports, what a load came to.

An experiment imports them from `xoff`.
"""
