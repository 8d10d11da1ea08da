"""A student's work of a lesson, which is read and run in the lab alone; `xoff lesson grade` runs it."""

from testbed.experiment.definition import load_file
from xoff import File, Run, experiment


@experiment(timeout="300s")
def submission(run: Run, file: File) -> None:
    """Run the experiment in a file."""
    load_file(file.path).body(run)
