"""The names of files and folders that a run leaves in its result folder, as the lab's side writes them."""

EVENT_LOG = "events.jsonl"
"""All events of the run, a JSON line each."""
DCBX_LOG = "dcbx.jsonl"
"""Every LLDP frame and every change of DCBX, for `xoff export --ladder`."""
FLOW_LOG = "flows.jsonl"
"""Every flow that has ended, with its completion time and its counters."""
ROUTE_LOG = "routes.jsonl"
"""Every change of a route that routing daemons made."""
PUBLISHED_LOG = "published.jsonl"
"""Published values of others, beside what the run measured."""
CAPTURES = "captures"
"""A folder; in it a folder for each network, 1 for the first."""
CAPTURE_PROCESS = "xoff-capture"
"""The name of a process that writes captures. When a run is cut short the lab ends it by SIGTERM, before all else."""
PLACED_NS = 1
"""The time of change, since 1970, of files that the lab has put into the job's folder: what the job does not change of
them is not in its result."""
