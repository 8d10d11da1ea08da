"""The tests of `xoff benchmark`, after draft-calabria-bmwg-ai-fabric-training-bench-00. Not experiments for themselves.

A test reports figures with names such as "N = 8: throughput". What is before the colon is a row of its table and what
is behind it a column.
"""
