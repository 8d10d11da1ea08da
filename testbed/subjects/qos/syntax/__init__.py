"""The two syntaxes of a policy: reading, checking and writing of files."""
