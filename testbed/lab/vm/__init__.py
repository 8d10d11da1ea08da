"""The engine `vm`: QEMU, and the snapshot that its jobs wake from."""
