"""The Ryu application of the controller, and the I/O around the modules in `testbed` that decide."""
