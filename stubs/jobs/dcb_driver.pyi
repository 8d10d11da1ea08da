from tests.lab.jobs.dcb_driver import *
