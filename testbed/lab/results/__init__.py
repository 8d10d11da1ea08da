"""Results: what a run brought, and the folder that holds it."""
