from tests.lab.jobs.looking import *
