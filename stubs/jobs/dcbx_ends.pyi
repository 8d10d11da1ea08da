from tests.lab.jobs.dcbx_ends import *
