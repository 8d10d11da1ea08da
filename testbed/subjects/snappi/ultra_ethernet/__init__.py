"""The Ultra Ethernet link layer of test ports, as Open Traffic Generator has it: its model, and its settings."""
