"""The OpenFabrics QoS policy."""
