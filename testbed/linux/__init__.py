"""All that talks to the Linux kernel."""
