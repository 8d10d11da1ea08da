"""ECN: the field, the marking curve in a switch user's words, what Linux RED is told, and a model of what it does."""
