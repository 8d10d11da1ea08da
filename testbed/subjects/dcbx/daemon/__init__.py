"""The DCBX agent `xoff dcbx agent`, on any interfaces of a machine, without the lab.

`agent` is its loop and `interface` one interface of it: the LLDP socket, the port of `testbed.subjects.dcbx` and the
NIC (`nic`, with `saved_settings`). `config_sources` finds the settings, `log_file` has the log, and `control_socket`
answers `xoff dcbx`.
"""
