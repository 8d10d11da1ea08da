"""This machine: its cores, the packages on it, and the cache in which Xoff keeps what it builds."""
