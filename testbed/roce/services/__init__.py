"""The unreliable services UC and UD, beside reliable connections, and receives that queue pairs share."""
