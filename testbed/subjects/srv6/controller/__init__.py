"""The SR policy controller: topology, path computation, admission of intents, deployment on routers."""
