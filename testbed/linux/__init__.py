"""All access to the Linux kernel: netlink, sockets, BPF, namespaces, processes."""
