"""Six guided labs: for each a page, an experiment to edit, its solution and the checks of a student's run."""
