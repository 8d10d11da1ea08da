"""All interfaces to the Linux kernel."""
