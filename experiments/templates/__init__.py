"""The files that `xoff new` copies: `new_thing`, `NewThing` and `new-thing` become the name that the user gives."""
