from tests.lab.jobs.fake_routers import *
