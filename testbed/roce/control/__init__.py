"""Rate controls of one's own as code that the kernel's queue pairs interpret (`rate_code.code_of`)."""
