"""The control session between a router's agent and the controller: messages and both ends."""
