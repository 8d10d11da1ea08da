"""SR policies as a service of the controller's REST interface."""
