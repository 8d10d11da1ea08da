"""ECN: the field, the marking curve as switches configure it, the parameters of Linux RED, and a model of RED."""
