"""Processes: forks, namespaces, privileges and sandboxes."""
