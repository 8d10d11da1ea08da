"""Test plans of the link layer that run on its models, and in the lab: SONiC's Scale-Up Test Standard."""

PLANS = {"scale-up": "testbed.subjects.link.commands.scale_up:CASES"}
"""The plans by the words of `--plan`: each a `testbed.lab.studies.plan_rows.Plan`."""
