"""The link layer of Ultra Ethernet: retry (LLR), and what its frames and ordered sets look like.

The texts of the consortium are not public. Layouts and names come from public descriptions of them, and what could not
be compared with the texts themselves is marked provisional.
"""
