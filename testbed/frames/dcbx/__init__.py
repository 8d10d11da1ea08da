"""Values of DCBX. The layouts of its TLVs are with its features (`testbed.dcbx.features`)."""
