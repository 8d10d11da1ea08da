"""The DCBX agent `xoff dcbx agent`, on any interface of a machine, without the lab."""
