"""Messages of the link layer of Ultra Ethernet."""
