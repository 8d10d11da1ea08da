"""What goes into the lab image, beside Debian's packages: pid 1, launchers and the Python locks."""
