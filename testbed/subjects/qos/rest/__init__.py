"""QoS policies and path records as a service of the REST interface."""
