"""What reports and captures show of the link layer."""
