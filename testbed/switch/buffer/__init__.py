"""The switch's ingress buffer: its configuration (`settings`) and what it does with each frame (`model`)."""
