from tests.lab.jobs.select_groups import equal_ways as equal_ways
