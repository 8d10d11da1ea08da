"""QoS policy of the OpenFabrics RFC: the policy language, its checks, rule matching and path records.

Not here: SR policies, which are `testbed.subjects.srv6.controller.policy`; the wire format of path records, which is
`testbed.frames.path_record`; anything that touches a network.
"""
