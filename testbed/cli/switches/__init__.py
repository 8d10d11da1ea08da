"""Commands for switches, QoS policies, controllers and DCBX."""
