"""Link Layer Retry: ordered sets, sender, receiver, and the cable between them as a reference of the kernel's."""
