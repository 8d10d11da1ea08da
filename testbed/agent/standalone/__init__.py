"""The DCBX agent `xoff agent`, on any interface of a machine, without the lab."""
