from tests.lab.jobs.random_links import *
