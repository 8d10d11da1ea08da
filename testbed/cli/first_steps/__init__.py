"""The commands for a newcomer: run experiments, look at their results, begin an own one."""
