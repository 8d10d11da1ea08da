"""Rate controls of one's own as code that the kernel's queue pairs interpret (`sharing.code_of`)."""
