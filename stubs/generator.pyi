from tests.lab.jobs.generator import *
