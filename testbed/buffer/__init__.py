"""The switch's ingress buffer: what it is told (`settings`) and what it does with each frame (`model`)."""
