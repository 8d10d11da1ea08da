"""The engines that a job can run on, and what they need of this machine."""
