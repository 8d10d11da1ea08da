"""The calculators of the documentation site: forms whose answers Xoff's own code gives, in the browser."""
