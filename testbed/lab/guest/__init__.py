"""The files of the lab image beside Debian's packages: pid 1, launchers and the Python locks."""
