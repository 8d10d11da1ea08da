"""Values of DCBX. The layouts of its TLVs are with its features (`testbed.subjects.dcbx.features`)."""
