"""The configuration of a traffic generator in the model of Open Traffic Generator: read, checked, and made into frames
with their times. Sans-I/O, and without snappi: the input is the plain data of a configuration or a request."""
