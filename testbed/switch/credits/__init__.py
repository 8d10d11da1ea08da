"""Credits: a sender lets a frame leave only if the receiver has told it of room for it (CBFC, Ultra Ethernet 5.2)."""
